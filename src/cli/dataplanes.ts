// SPDX-License-Identifier: Apache-2.0
// Opens the dataplanes of composed.ts. Only this file imports one from outside src/dataplane; everything else depends on the
// interface in src/dataplane/dataplane.ts.
import type { OpenDataplane } from '../agent/instance.ts';
import { checkCgroupRoot, checkKernel, namingCapabilities } from '../agent/preflight/checks.ts';
import type { Engine } from '../config/types.ts';
import { pinnedConnections } from '../dataplane/bpf/flows/pinned.ts';
import { pinnedSnapshot } from '../dataplane/bpf/inspect/pinned.ts';
import { listPinned, type PinnedParts, removePinned } from '../dataplane/bpf/loader/cleanup.ts';
import { openBpfDataplane } from '../dataplane/bpf/open.ts';
import type { DeviceSettings } from '../dataplane/bpf/packet/layer.ts';
import type { Connections } from '../dataplane/connections.ts';
import { type IptablesSettings, openIptablesDataplane } from '../dataplane/iptables/open.ts';
import { listRules, type RulesPart, removeRules } from '../dataplane/iptables/restore/cleanup.ts';
import { lockRules, type RulesLock } from '../dataplane/iptables/restore/instance-lock.ts';
import { createRouter } from '../dataplane/router.ts';
import type { Snapshot } from '../dataplane/snapshot.ts';
import type { Logger } from '../log.ts';

export interface DataplaneSettings {
  readonly engine: Engine;
  readonly iptables: Omit<IptablesSettings, 'holder'>;
  /** undefined: the root of the cgroup v2 hierarchy. */
  readonly cgroupRoot: string | undefined;
  readonly bpfRoot: string;
  /** Named in the error that another process gets. */
  readonly runDir: string;
  readonly nodeName: string;
  /** Entries by the table names of --map-size. */
  readonly mapSizes: Readonly<Record<string, number>>;
  /** TCP connections to a backend that is gone are reset. */
  readonly resetsTcp: boolean;
  /** Echo requests to addresses of Services are answered. */
  readonly answersPing: boolean;
  /** undefined: no programs on devices. */
  readonly devices: DeviceSettings | undefined;
  /** Processes of the node cannot bind NodePorts. */
  readonly protectsNodePorts: boolean;
}

/** @returns a function that opens the dataplane. Throws FairleadError if this machine cannot run one. */
export function dataplaneOf(settings: DataplaneSettings, log: Logger): OpenDataplane {
  const { engine, iptables, bpfRoot, runDir, nodeName, cgroupRoot: asked, ...layers } = settings;
  const holder = { command: 'agent', nodeName, runDir };
  if (engine === 'iptables') {
    return async () => createRouter([await openIptablesDataplane({ ...iptables, holder }, log)]);
  }
  checkKernel();
  const { path: cgroupRoot } = checkCgroupRoot(asked);
  return async (network) => {
    try {
      const bpf = { bpfRoot, holder, cgroupRoot, ...layers };
      return createRouter([await openBpfDataplane(bpf, { network, log })]);
    } catch (error) {
      throw namingCapabilities(error);
    }
  };
}

/** What is programmed below this --bpf-root, whether an agent runs or not. Throws NOT_FOUND. */
export const programmedBelow = (bpfRoot: string): Snapshot => pinnedSnapshot(bpfRoot);

/** The connections below this --bpf-root, whether an agent runs or not. Throws NOT_FOUND. */
export const connectionsBelow = (bpfRoot: string): Connections => pinnedConnections(bpfRoot);

/** The iptables rules that fairlead has written in this network namespace. */
export const listWrittenRules = (): readonly RulesPart[] => listRules();

/** Removes them. Throws RESTORE_FAILED. */
export const removeWrittenRules = (): readonly RulesPart[] => removeRules();

/** Nobody else writes rules here until it is closed. Throws IPTABLES_IN_USE. */
export const lockWrittenRules = (runDir: string): Promise<RulesLock> =>
  lockRules({ command: 'cleanup', runDir });

/** What `removeProgrammed` would remove. */
export const listProgrammed = (bpfRoot: string): PinnedParts => listPinned(bpfRoot);

/** Removes what is programmed there and returns it. Throws BPF_ROOT_IN_USE. */
export const removeProgrammed = (bpfRoot: string, runDir: string): PinnedParts =>
  removePinned(bpfRoot, { command: 'cleanup', runDir });
