// SPDX-License-Identifier: Apache-2.0
// The packet layer: its programs are loaded and follow the devices of the node. What an earlier agent attached is
// adopted, or, without this layer, removed.
import { basename } from 'node:path';
import { FairleadError, reasonOf } from '../../../../errors.ts';
import type { Logger } from '../../../../log.ts';
import type { Family } from '../../../../model/types.ts';
import type { Plan, ServiceKey } from '../../../../plan/types.ts';
import { SYSTEM_CLOCK } from '../../../../sys/clock.ts';
import type { NetworkFollower } from '../../../../sys/netlink/network.ts';
import type { Entry } from '../../../entry.ts';
import type { CookieView, DeviceView, TableFill } from '../../../snapshot.ts';
import {
  CONN_MAPS,
  type ConnTables,
  connTables,
  digitOf,
  hasConns,
} from '../../conn/conn-table.ts';
import { createDeviceFollower, type DeviceFollower } from '../../devices/device-follower.ts';
import { deviceTable } from '../../devices/device-table.ts';
import type { AdoptEarlyPath, EarlyPathParts, OpenEarlyPath } from '../../devices/early-path.ts';
import { reasonForNoHooks } from '../../devices/no-hooks.ts';
import type { DevicePolicy } from '../../devices/policy.ts';
import type { SecretFile } from '../../direct-return/kernel/cookie-follow.ts';
import { openDirectReturn } from '../../direct-return/kernel/open.ts';
import type { Totals } from '../../flows/traffic/totals.ts';
import type { Features, PacketSettings } from '../../layout/packet-layout.ts';
import { parseMapPin } from '../../layout/versions.ts';
import { markOlderConns } from '../../rows/marks.ts';
import { followPing } from '../../rows/ping.ts';
import { type NameSockets, namedSockets } from '../../rows/refused-sockets.ts';
import type { PodDevice } from '../../scope/judge.ts';
import type { ArrayTable, DirectTables } from '../../state/tables.ts';
import { removeFiltersOf } from '../devices/clsact.ts';
import { detachPinned, devicePins, earlyPins } from '../devices/device-pins.ts';
import { EARLY_PATHS } from '../devices/early-paths.ts';
import { createKernelLinks, type TcOrder } from '../devices/kernel-links.ts';
import { createTotalsReader, type LastTotals } from '../flows/traffic/reader.ts';
import { listPins, pinFolder, unpin } from '../loader/pins.ts';
import { arrayTable, hashTable, kernelTables } from '../maps/kernel.ts';
import { forgetAnswered } from '../retire/former-flows.ts';
import { mayHaveFormer } from '../retire/former-proxy.ts';
import type { DevicePrograms } from './programs.ts';
import { followSettings } from './settings.ts';
import { type Look, startSweeping } from './sweeping.ts';

export interface DeviceSettings {
  readonly policy: DevicePolicy;
  readonly order: TcOrder;
  /** What early paths are to use, by their names; absent: nothing. */
  readonly early?: Readonly<Record<string, readonly string[]>>;
}

export interface PacketLayer {
  /** Every device of the node. */
  devices(): readonly DeviceView[];
  /** The same devices, and whether what comes in by them is translated: cheap. */
  servedDevices(): readonly PodDevice[];
  /** Keeps the settings of the programs, and the addresses that answer pings, as the plan has them, in which these Services have changed. */
  follow(plan: Plan, changed: Iterable<ServiceKey> | 'all'): void;
  /** Services are programmed. */
  begin(): void;
  /** Attaches again what somebody else has removed. */
  repair(): void;
  /** Compares with the kernel what direct return needs to know: other nodes, the port and the MTU. Repairs it. */
  audit(plan: Plan): readonly Entry[];
  /** Packets and bytes of frontends as of the last reading. */
  totals(): Totals | undefined;
  /** As totals(), but waits a moment for a new reading. */
  latestTotals(): Promise<Totals | undefined>;
  /** How full the tables of connections are. */
  fill(): readonly TableFill[];
  readonly nameSockets: NameSockets;
  /** fl_traffic: cleared when a frontend's id is given to another one. */
  readonly traffic: ArrayTable;
  readonly direct: DirectTables;
  /** What begins is left to rules; connections that are known go on. Kept by the next agent. */
  readonly leaveNew: (isLeft: boolean) => void;
  /** The port for it was open when the layer was opened. */
  readonly hadDirectReturn: boolean;
  /** Why there is no direct return although the kernel has it. */
  readonly noDirectReturn: string | undefined;
  cookies(): CookieView;
  readonly features: Features;
  /** Programs stay attached. */
  close(): void;
}

export interface PacketLayerParts {
  /** Those that devices need now. */
  readonly programs: Promise<DevicePrograms>;
  /** The program that ends expired connections. */
  readonly sweepObject: Uint8Array;
  readonly readObject: EarlyPathParts['readObject'];
  readonly bpfRoot: string;
  readonly sizes: Readonly<Record<string, number>>;
  /** TCP connections to a backend that is gone are reset. */
  readonly resetsTcp: boolean;
  /** Echo requests to addresses of Services are answered. */
  readonly answersPing: boolean;
  /** How long connections are kept without a packet. */
  readonly timeouts: PacketSettings['timeoutSeconds'];
  /** This kernel can do it. */
  readonly hasDirectReturn: boolean;
  /** What the programs are loaded with. */
  readonly features: Features;
  /** undefined: direct return needs no cookies. */
  readonly secretFile: SecretFile | undefined;
  /** The devices of the node; the caller closes it, later than the layer. */
  readonly network: NetworkFollower;
  /** This process has opened it before, with other programs or maps. */
  readonly isAgain?: boolean | undefined;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** Another proxy may have rules here. */
  readonly mayHaveRules: () => boolean;
  readonly look?: Look | undefined;
  readonly totals?: LastTotals | undefined;
  /** When everything is loaded, right before the first link is replaced. */
  readonly beforeLinks?: () => Promise<void>;
  /** Before each link of a device that an earlier agent has attached is replaced. */
  readonly beforeLink?: () => void;
  /** When all of these have been. */
  readonly afterLinks?: () => void;
}

/** A failure must not stop packets from moving: only few answers are late. */
function forget(bpfRoot: string, log: Pick<Logger, 'warn'>): void {
  try {
    forgetAnswered(bpfRoot);
  } catch (error) {
    log.warn(
      { reason: reasonOf(error) },
      'answered UDP questions not forgotten: late answers may reach former clients',
    );
  }
}

/** After the socket layer, with which it shares maps. Throws FairleadError. */
export async function openPacketLayer(
  settings: DeviceSettings,
  parts: PacketLayerParts,
): Promise<PacketLayer> {
  const { sweepObject, bpfRoot, sizes, resetsTcp, answersPing, timeouts, look, log } = parts;
  const { features } = parts;
  const loaded = await parts.programs;
  const opened: { close(): void }[] = [loaded];
  const close = (): void => {
    for (const part of opened.splice(0).reverse()) part.close();
  };
  try {
    const hasFormer = await mayHaveFormer(loaded.map('fl_packet'), parts);
    const keptPorts = arrayTable(loaded.map('fl_kept_port'));
    const followed = followSettings(loaded.map('fl_packet'), keptPorts, {
      ...{ resetsTcp, answersPing, timeouts, features, hasFormer },
    });
    const followAddresses = answersPing
      ? followPing(hashTable(loaded.map('fl_ping')), log)
      : undefined;
    const conns = (): ConnTables => connTables(loaded.map);
    const traffic = arrayTable(loaded.map('fl_traffic'));
    const directReturn = openDirectReturn(loaded, {
      ...{ secretFile: parts.secretFile, log },
      isAble: parts.hasDirectReturn && features.directReturn,
    });
    opened.push(directReturn);
    const buckets = (family: Family): number =>
      loaded.map(`fl_client${digitOf(family)}`).info.maxEntries;
    const shared = kernelTables(loaded.map);
    const { frontend, runtime } = shared;
    const marks = arrayTable(loaded.map('fl_mark'));
    const counts = arrayTable(loaded.map('fl_conn_count'));
    const tables = { marks, counts, buckets, shared };
    const adopt = await prepareEarlyPaths(settings, loaded, parts);
    await parts.beforeLinks?.();
    const early: OpenEarlyPath[] = [];
    for (const one of adopt) {
      const path = one();
      if (path === undefined) continue;
      early.push(path);
      opened.push(path);
    }
    markOlderConns(loaded.map('fl_mark'), () => hasConns(conns()));
    const { wasOpen: hadDirectReturn } = directReturn.begin(runtime, parts.network);
    const totals = createTotalsReader({ conns, traffic, frontend }, log, { last: parts.totals });
    opened.push(totals);
    const follower = followDevices(settings, loaded, { ...parts, early });
    parts.afterLinks?.();
    opened.push(follower);
    const why = reasonForNoHooks(follower.devices());
    if (why !== undefined) {
      throw new FairleadError(
        'ATTACH_FAILED',
        `the kernel has neither tcx nor clsact (${why}): load the modules sch_ingress and cls_bpf`,
      );
    }
    const sweep = { object: sweepObject, bpfRoot, sizes, tables, look, clock: SYSTEM_CLOCK, log };
    const sweeping = startSweeping(sweep);
    opened.push(sweeping);
    return {
      devices: () => follower.devices(),
      servedDevices: () =>
        follower.decisions().map(({ link: { ifindex }, isAttached }) => ({
          ...{ ifindex, isServed: isAttached },
        })),
      totals: () => totals.read(),
      latestTotals: () => totals.latest(),
      fill: () => sweeping.fill(),
      traffic,
      direct: directReturn.tables,
      hadDirectReturn,
      noDirectReturn: directReturn.whyNot,
      cookies: () => directReturn.cookies(),
      features,
      nameSockets: namedSockets(hashTable(loaded.map('fl_refused_sock')), runtime),
      follow(plan, changed) {
        followed.node(plan.node);
        followAddresses?.(plan, changed);
        directReturn.follow(plan);
      },
      begin() {
        for (const path of early) path.begin();
      },
      leaveNew: (isLeft) => {
        followed.leaveNew(isLeft);
        if (isLeft) forget(bpfRoot, log);
      },
      audit: ({ node }) => directReturn.audit(node),
      repair() {
        const devices = [...follower.repair(), ...early.flatMap((path) => path.repair())];
        if (devices.length > 0)
          log.warn({ devices }, 'programs that somebody detached are attached again');
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

const prepareEarlyPaths = (
  { early }: DeviceSettings,
  loaded: DevicePrograms,
  parts: PacketLayerParts,
): Promise<readonly AdoptEarlyPath[]> =>
  Promise.all(EARLY_PATHS.map((path) => path.prepare(early?.[path.name] ?? [], loaded, parts)));

/** Closing it keeps the programs attached. */
function followDevices(
  { policy, order }: DeviceSettings,
  { map, programs, load }: DevicePrograms,
  {
    bpfRoot,
    log,
    network,
    beforeLink,
    isAgain,
    early,
  }: Pick<PacketLayerParts, 'bpfRoot' | 'log' | 'network' | 'beforeLink' | 'isAgain'> & {
    readonly early: readonly OpenEarlyPath[];
  },
): DeviceFollower {
  const follower = createDeviceFollower({
    early,
    ...{ network, policy, isAgain, clock: SYSTEM_CLOCK, log },
    table: deviceTable(hashTable(map('fl_device'))),
    links: createKernelLinks({
      ...{ programs, load, order, ...(beforeLink && { beforeLink }) },
      folder: pinFolder(bpfRoot).links,
      links: () => network.current().links.values(),
    }),
  });
  for (const path of early) path.follow(follower, network);
  return follower;
}

/** Those of bpf/packet/maps.h. */
export const PACKET_MAPS: readonly string[] = [
  ...CONN_MAPS,
  'fl_traffic',
  ...['fl_mark', 'fl_fragment', 'fl_device', 'fl_ping', 'fl_refused_sock', 'fl_packet'],
  ...['fl_answers', 'fl_cookie', 'fl_peer', 'fl_path_mtu', 'fl_backend_node', 'fl_local_be'],
  ...['fl_kept_port', 'fl_next', 'fl_phase'],
];

/**
 * Programs of an earlier agent would go on with what it left in the maps, and its flows take memory. Connections that
 * another proxy begins meanwhile are known to conntrack alone: the next agent with this layer must not reset them.
 */
export function removePacketLayer(bpfRoot: string): void {
  const { links } = pinFolder(bpfRoot);
  for (const { path } of [...earlyPins(links), ...devicePins(links)])
    detachPinned(path, removeFiltersOf);
  for (const path of listPins(bpfRoot).maps) {
    if (PACKET_MAPS.includes(parseMapPin(basename(path))?.map ?? '')) unpin(path);
  }
}
