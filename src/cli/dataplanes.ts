// SPDX-License-Identifier: Apache-2.0
// Opens the dataplanes of composed.ts. Only this file imports one from outside src/dataplane; everything else depends on the
// interface in src/dataplane/dataplane.ts.
import type { OpenDataplane } from '../agent/instance.ts';
import { checkCgroupRoot, checkKernel, namingCapabilities } from '../agent/preflight/checks.ts';
import { pinnedConnections } from '../dataplane/bpf/flows/pinned.ts';
import { pinnedSnapshot } from '../dataplane/bpf/inspect/pinned.ts';
import { listPinned, type PinnedParts, removePinned } from '../dataplane/bpf/loader/cleanup.ts';
import { openBpfDataplane } from '../dataplane/bpf/open.ts';
import type { DeviceSettings } from '../dataplane/bpf/packet/layer.ts';
import type { Connections } from '../dataplane/connections.ts';
import { createRouter } from '../dataplane/router.ts';
import type { Snapshot } from '../dataplane/snapshot.ts';
import type { Logger } from '../log.ts';

export interface DataplaneSettings {
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
  checkKernel();
  const { bpfRoot, runDir, nodeName, cgroupRoot: asked, ...layers } = settings;
  const holder = { command: 'agent', nodeName, runDir };
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

/** What `removeProgrammed` would remove. */
export const listProgrammed = (bpfRoot: string): PinnedParts => listPinned(bpfRoot);

/** Removes what is programmed there and returns it. Throws BPF_ROOT_IN_USE. */
export const removeProgrammed = (bpfRoot: string, runDir: string): PinnedParts =>
  removePinned(bpfRoot, { command: 'cleanup', runDir });
