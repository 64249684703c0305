// SPDX-License-Identifier: Apache-2.0
// Opens the dataplanes of composed.ts. Only this file opens one from outside src/engines; everything else depends on the
// interface in src/engines/dataplane.ts.
import { setTimeout as delay } from 'node:timers/promises';
import type { Engine } from '../config/types.ts';
import { pinnedPrograms } from '../engines/bpf/kernel/devices/pinned-programs.ts';
import { pinnedConnections } from '../engines/bpf/kernel/flows/pinned.ts';
import { pinnedSnapshot } from '../engines/bpf/kernel/inspect/pinned.ts';
import {
  listPinned,
  type PinnedParts,
  removePinned,
} from '../engines/bpf/kernel/loader/cleanup.ts';
import type { BpfSettings } from '../engines/bpf/kernel/open.ts';
import { openGrowingDataplane } from '../engines/bpf/kernel/open-growing.ts';
import type { DeviceSettings } from '../engines/bpf/kernel/packet/layer.ts';
import type { Connections } from '../engines/connections.ts';
import type { ComposedDataplane, Dataplane } from '../engines/dataplane.ts';
import type { FoundTools } from '../engines/iptables/kernel/find.ts';
import type { IptablesSettings } from '../engines/iptables/kernel/open.ts';
import type { NftablesSettings } from '../engines/nftables/kernel/open.ts';
import { createMoving, type InPlace } from '../engines/router/moving.ts';
import { createRouter } from '../engines/router/router.ts';
import { createShadowDataplane } from '../engines/shadow/dataplane.ts';
import type { Fallback, Snapshot } from '../engines/snapshot.ts';
import { recordedAddresses, removeRecorded } from '../engines/userspace/kernel/open.ts';
import { FairleadError, reasonOf } from '../errors.ts';
import type { Logger } from '../log.ts';
import { type FallbackFacts, mayFallBack } from '../probe/fallback.ts';
import { holds, refusalReason } from '../probe/forbidden.ts';
import type { RulesEngine } from '../probe/rules-choice.ts';
import { explained, explainLater } from '../probe/run/ask.ts';
import type { NetworkFollower } from '../sys/netlink/network.ts';
import { ownStatus, readLockdown } from '../sys/probe-sandbox.ts';
import { giveWay } from '../sys/process/priority.ts';
import type { OpenDataplane } from './compose.ts';
import { rulesInUse, rulesThatWork } from './leftovers/rules-in-use.ts';
import { checkCgroupRoot, checkKernel, explainMissingCapabilities } from './preflight/checks.ts';
import { mayHaveProxyRules } from './preflight/other-proxies.ts';

export interface DataplaneSettings {
  /** The one to begin with, and why it is not bpf although --engine is auto. */
  readonly engine: 'bpf' | RulesEngine | 'userspace' | 'shadow';
  readonly reason?: string | undefined;
  /** --engine: with auto rules serve what bpf cannot. */
  readonly asked: Engine;
  /** Of rules, whichever engine writes them. */
  readonly rules: Omit<IptablesSettings, 'holder'> & Pick<NftablesSettings, 'offload'>;
  /** Called before rules serve. @param isStart not if eBPF has served: what answers at kube-proxy's ports is this agent */
  readonly beforeRules: (isStart: boolean, engine: RulesEngine) => void;
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
  readonly conntrack: BpfSettings['conntrack'];
  /** undefined: no programs on devices. */
  readonly devices: DeviceSettings | undefined;
  /** Processes of the node cannot bind NodePorts. */
  readonly protectsNodePorts: boolean;
  readonly secretFile?: BpfSettings['secretFile'];
  readonly socketScope: BpfSettings['socketScope'];
}

/** @returns a function that opens the dataplane. Throws FairleadError if this machine cannot run one. */
export function dataplaneOf(settings: DataplaneSettings, log: Logger): OpenDataplane {
  const { engine, reason } = settings;
  if (engine === 'shadow') return shadowOf();
  if (engine === 'userspace') return () => ownSockets(settings, log);
  if (engine !== 'bpf') {
    const fallback = reason === undefined ? undefined : { what: BOTH, reason };
    return () => onlyRules(settings, fallback, log);
  }
  checkKernel();
  const { path: cgroupRoot } = checkCgroupRoot(settings.cgroupRoot);
  return async (network) => {
    const facts = fallbackFacts(settings.bpfRoot, settings.devices !== undefined);
    try {
      const bpf = await openBpf({ ...settings, cgroupRoot }, { network, log });
      return await withRules(bpf, settings, log);
    } catch (thrown) {
      const error = explainRefusal(explainMissingCapabilities(thrown));
      if (settings.asked === 'bpf' || !mayFallBack(error, facts)) {
        throw await explained(error, settings.asked);
      }
      const fallback = { what: BOTH, reason: error.message };
      return await onlyRules(settings, fallback, log);
    }
  };
}

/** Throws NO_PRIVILEGE if rules could not be listed. */
function shadowOf(): OpenDataplane {
  if (!holds({ status: ownStatus() }, 'CAP_NET_ADMIN')) {
    throw new FairleadError(
      'NO_PRIVILEGE',
      'this process lacks CAP_NET_ADMIN, without which the kernel lists no rules to compare with: run it as root, or add the capability (and CAP_NET_RAW for iptables-legacy)',
    );
  }
  giveWay();
  return async () => createRouter([createShadowDataplane()]);
}

/** The cause instead of what libbpf says, where bpf(2) itself is forbidden. */
function explainRefusal(error: unknown): unknown {
  if (!(error instanceof FairleadError)) return error;
  const reason = refusalReason(error.message, { status: ownStatus(), lockdown: readLockdown() });
  if (reason === undefined) return error;
  return new FairleadError('NO_PRIVILEGE', reason, error.detail ?? error.message);
}

const BOTH = 'sockets and packets' as const;

type Opening = Pick<DataplaneSettings, 'nodeName' | 'runDir' | 'rules' | 'asked'>;

const holderOf = ({ nodeName, runDir }: Opening) => ({ command: 'agent', nodeName, runDir });

const openBpf = (
  settings: Omit<BpfSettings, 'holder'> & Opening,
  parts: { readonly network: NetworkFollower; readonly log: Logger },
): Promise<Dataplane> =>
  openGrowingDataplane(
    { ...settings, holder: holderOf(settings) },
    { ...parts, mayHaveRules: mayHaveProxyRules },
  );

interface OpenedRules {
  readonly dataplane: Dataplane;
  readonly engine: RulesEngine;
  /** With auto; see chooseRules(). */
  readonly why?: readonly string[];
}

/** Modules are loaded only if they are needed: what runs programs takes 8 MiB. */
async function openRules(settings: Opening, log: Logger, isFiltered = false): Promise<OpenedRules> {
  if (settings.asked === 'nftables') return openNftables(settings, log);
  if (settings.asked === 'iptables') return openIptables(settings, log);
  const inUse = rulesInUse();
  const { chosen, found } = await rulesThatWork(isFiltered ? { ...inUse, isFiltered } : inUse);
  const { engine, why } = chosen;
  const opened =
    engine === 'nftables'
      ? await openNftables(settings, log)
      : await openIptables(settings, log, found);
  log.info({ engine, why }, 'rules chosen');
  return { ...opened, why };
}

async function openIptables(
  settings: Opening,
  log: Logger,
  found?: FoundTools,
): Promise<OpenedRules> {
  const { openIptablesDataplane } = await import('../engines/iptables/kernel/open.ts');
  const asked = { ...settings.rules, holder: holderOf(settings) };
  return { dataplane: await openIptablesDataplane(asked, log, found), engine: 'iptables' };
}

/** Under the lock on the rules of this network namespace, which all engines that write them share. */
async function openNftables(settings: Opening, log: Logger): Promise<OpenedRules> {
  const { lockRules } = await import('../engines/iptables/kernel/instance-lock.ts');
  const { openNftablesDataplane } = await import('../engines/nftables/kernel/open.ts');
  const lock = await lockRules(holderOf(settings));
  return {
    dataplane: await openNftablesDataplane({ ...settings.rules, lock }, log),
    engine: 'nftables',
  };
}

/** Loaded only if it is needed. */
async function ownSockets(
  { runDir }: Opening,
  log: Logger,
  fallback?: Fallback,
): Promise<ComposedDataplane> {
  const { openUserspaceDataplane } = await import('../engines/userspace/kernel/open.ts');
  const addsAddresses = holds({ status: ownStatus() }, 'CAP_NET_ADMIN');
  return createRouter([await openUserspaceDataplane({ runDir, addsAddresses }, log)], fallback);
}

export { recordedAddresses, removeRecorded };

const FREE_WITHIN_MS = 10_000;
const RETRY_MS = 100;

/** The hand-over of an earlier move may still remove rules. */
async function openWhenFree(open: () => Promise<OpenedRules>): Promise<OpenedRules> {
  const deadline = performance.now() + FREE_WITHIN_MS;
  for (;;) {
    try {
      return await open();
    } catch (error) {
      const isHeld = error instanceof FairleadError && error.code === 'IPTABLES_IN_USE';
      if (!isHeld || performance.now() > deadline) throw error;
      await delay(RETRY_MS);
    }
  }
}

/** In place of eBPF; undefined: they cannot be written. */
async function rulesForPackets(
  fallback: Fallback,
  settings: Opening & Pick<DataplaneSettings, 'beforeRules'>,
  log: Logger,
): Promise<InPlace | undefined> {
  try {
    const opened = await openWhenFree(() => openRules(settings, log, true));
    settings.beforeRules(false, opened.engine);
    const served = fallbackBy(opened, fallback);
    log.warn({ ...served }, fallbackMessage(opened.engine));
    return { rules: opened.dataplane, fallback: served };
  } catch (error) {
    const fields = { reason: reasonOf(error), because: fallback.reason };
    log.warn(fields, 'rules cannot serve packets');
    return undefined;
  }
}

async function onlyRules(
  settings: Opening & Pick<DataplaneSettings, 'beforeRules'>,
  fallback: Fallback | undefined,
  log: Logger,
): Promise<ComposedDataplane> {
  try {
    const opened = await openRules(settings, log);
    const { dataplane: rules, engine } = opened;
    settings.beforeRules(true, engine);
    const served = fallback && fallbackBy(opened, fallback);
    if (served !== undefined) log.warn({ ...served }, fallbackMessage(engine));
    const dataplane = createRouter([rules], served);
    if (fallback !== undefined) explainLater(log);
    return dataplane;
  } catch (error) {
    const reasoned = withReasonOfBpf(error, fallback);
    if (settings.asked !== 'auto' || !isLacking(error)) throw reasoned;
    const served = { what: BOTH, by: 'userspace', reason: reasonOf(reasoned) } as const;
    log.warn({ ...served }, 'neither eBPF nor rules can serve this node, sockets of the agent do');
    explainLater(log);
    return ownSockets(settings, log, served);
  }
}

/** Other errors are about another agent. */
const isLacking = (error: unknown): boolean =>
  error instanceof FairleadError && ['NO_IPTABLES', 'NO_NFTABLES'].includes(error.code);

/** Neither works. */
function withReasonOfBpf(error: unknown, fallback: Fallback | undefined): unknown {
  if (fallback === undefined || !(error instanceof FairleadError)) return error;
  const { code, message, detail } = error;
  return new FairleadError(code, `${message}; and eBPF cannot serve: ${fallback.reason}`, detail);
}

/** With why it is this engine, where that is not plain. */
function fallbackBy({ engine, why = [] }: OpenedRules, fallback: Fallback): Fallback {
  const reason = [fallback.reason, ...why].join('; ');
  return engine === 'iptables' ? { ...fallback, reason } : { ...fallback, by: engine, reason };
}

const fallbackMessage = (engine: RulesEngine): string =>
  `eBPF cannot serve all of this node, ${engine} does`;

/** With auto, what the kernel refused of bpf is served by rules; if these cannot be written either, by nobody, as with bpf. */
async function withRules(
  bpf: Dataplane,
  settings: Opening & Pick<DataplaneSettings, 'beforeRules'>,
  log: Logger,
): Promise<ComposedDataplane> {
  const [refused] = bpf.installation.refused;
  if (settings.asked === 'bpf') return createRouter([bpf]);
  if (refused === undefined) {
    return createMoving(bpf, (fallback) => rulesForPackets(fallback, settings, log));
  }
  const fallback: Fallback = { what: 'packets', reason: refused.reason };
  try {
    const opened = await openRules(settings, log);
    const served = fallbackBy(opened, fallback);
    log.warn({ ...served }, fallbackMessage(opened.engine));
    explainLater(log);
    return createRouter([bpf, opened.dataplane], served);
  } catch (error) {
    log.warn({ reason: reasonOf(error) }, 'rules cannot serve packets either');
    return createRouter([bpf]);
  }
}

/** What is programmed below this --bpf-root, whether an agent runs or not. Throws NOT_FOUND. */
export const programmedBelow = (bpfRoot: string): Snapshot => pinnedSnapshot(bpfRoot);

/** Names of the programs that are attached, by the kernel's id. */
export const programsBelow = (bpfRoot: string): ReadonlyMap<number, string> =>
  pinnedPrograms(bpfRoot);

/** The connections below this --bpf-root, whether an agent runs or not. Throws NOT_FOUND. */
export const connectionsBelow = (bpfRoot: string): Connections => pinnedConnections(bpfRoot);

/** As of now: an opening that fails midway may leave nothing, but must not be asked afterwards. */
export const fallbackFacts = (bpfRoot: string, servesPackets: boolean): FallbackFacts => ({
  servesPackets,
  isAttached: listPinned(bpfRoot).links.length > 0,
  mayWriteRules: holds({ status: ownStatus() }, 'CAP_NET_ADMIN'),
});

/** What `removeProgrammed` would remove. */
export const listProgrammed = (bpfRoot: string): PinnedParts => listPinned(bpfRoot);

/** Removes what is programmed there and returns it. Throws BPF_ROOT_IN_USE. */
export const removeProgrammed = (bpfRoot: string, runDir: string): PinnedParts =>
  removePinned(bpfRoot, { command: 'cleanup', runDir });
