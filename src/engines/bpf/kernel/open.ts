// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane of one instance: programs attached (or those of an earlier agent adopted), tables over
// its maps. Throws FairleadError; then nothing is left attached that was not there before.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { FairleadError } from '../../../errors.ts';
import type { Logger } from '../../../log.ts';
import { kernelStructs } from '../../../sys/btf/structs.ts';
import { netnsCookie, waitGracePeriod } from '../../../sys/native.ts';
import type { NetworkFollower } from '../../../sys/netlink/network.ts';
import { bpfObjectPath } from '../../../sys/package.ts';
import { type BpfFacts, bpfCapabilities } from '../../capabilities.ts';
import type { Dataplane } from '../../dataplane.ts';
import type { Installation, SocketScope } from '../../snapshot.ts';
import { closeDirectPort } from '../direct-return/direct-port.ts';
import type { SecretFile } from '../direct-return/kernel/cookie-follow.ts';
import { reasonForNoDirectReturn } from '../direct-return/kernel/direct-trial.ts';
import { ALL_FEATURES } from '../features.ts';
import { canSetRetval, type Layer, type Rodata, socketLayer } from '../layer.ts';
import type { Features } from '../layout/packet-layout.ts';
import { maxEntries } from '../layout/sizes.ts';
import { followNode } from '../node-map.ts';
import { type ConntrackTimes, flowTimeouts, longestSilence } from '../rows/timeouts.ts';
import { type BpfParts, createBpfDataplane } from './dataplane.ts';
import { devicePins } from './devices/device-pins.ts';
import type { LastTotals } from './flows/traffic/reader.ts';
import { type Attached, type AttachOptions, attachLayer, checkLayer } from './loader/attach.ts';
import { lockPins, type PinHolder } from './loader/lock.ts';
import { pinFolder } from './loader/pins.ts';
import { readReasons } from './maps/counters.ts';
import { kernelTables } from './maps/kernel.ts';
import { type Carry, NOTHING_TO_CARRY } from './migration/carry.ts';
import { type MigrationOptions, migrateMaps } from './migration/migrate.ts';
import { giveAllPorts } from './migration/passing.ts';
import { beginPrograms, type EarlyPrograms } from './packet/early-programs.ts';
import {
  type DeviceSettings,
  openPacketLayer,
  type PacketLayer,
  removePacketLayer,
} from './packet/layer.ts';
import { neededPrograms, packetSettings } from './packet/programs.ts';
import { banOfRealtime, type OpenedPackets, orWithoutPackets } from './packet/refusal.ts';
import type { Look } from './packet/sweeping.ts';
import { chooseScope, createScopes, type ScopeChoice } from './scope/open.ts';
import { passing } from './scope/passing.ts';
import { createStaleSockets } from './stale-sockets/stale-sockets.ts';

export interface BpfSettings {
  /** Folder of pinned maps and links. */
  readonly bpfRoot: string;
  readonly holder: PinHolder;
  /** cgroup v2 directory whose sockets are translated. */
  readonly cgroupRoot: string;
  /** Entries by the table names of --map-size. */
  readonly mapSizes: Readonly<Record<string, number>>;
  /** TCP connections to a backend that is gone are reset, too. */
  readonly resetsTcp: boolean;
  /** Echo requests to addresses of Services are answered. */
  readonly answersPing: boolean;
  /** How long conntrack keeps its entries, and the packet programs their flows. */
  readonly conntrack: ConntrackTimes;
  /** undefined: no programs on devices, sockets alone are served. */
  readonly devices: DeviceSettings | undefined;
  /** Processes of the node cannot bind NodePorts. */
  readonly protectsNodePorts: boolean;
  /** --direct-return-secret-file */
  readonly secretFile?: SecretFile | undefined;
  /** Whose sockets are translated; packets of all others are. */
  readonly socketScope: SocketScope;
}

const SOCKET_OBJECT = 'sock.bpf.o';
const PACKET_OBJECT = 'packet.bpf.o';
const SWEEP_OBJECT = 'sweep.bpf.o';
const CARRY_OBJECT = 'carry.bpf.o';
const CARRY_CONN_OBJECT = 'carry_conn.bpf.o';

export interface OpenParts {
  /** Of the node; the caller closes it. */
  readonly network: NetworkFollower;
  readonly log: Logger;
  /** Another proxy may have rules here; without, they are taken to be there. */
  readonly mayHaveRules?: () => boolean;
  /** Told each step of a migration of maps before it is done. */
  readonly step?: (name: string) => void;
  /** What packet programs are loaded with; absent: everything. */
  readonly features?: Features;
  /** Told now and then how many connections of packets there are. */
  readonly look?: Look | undefined;
  /** What the dataplane before it has read of traffic, and the next one goes on from. */
  readonly totals?: LastTotals | undefined;
  /** The kernel has taken the programs in this process, with maps of other sizes. */
  readonly isTried?: boolean;
}

export async function openBpfDataplane(
  settings: BpfSettings,
  {
    network,
    log,
    step,
    features = ALL_FEATURES,
    look,
    totals,
    isTried = false,
    mayHaveRules = () => true,
  }: OpenParts,
): Promise<Dataplane> {
  const { bpfRoot, holder, cgroupRoot, mapSizes } = settings;
  const opened: { close(): void }[] = [];
  const close = (): void => {
    for (const part of opened.splice(0).reverse()) part.close();
  };
  try {
    opened.push(lockPins(bpfRoot, holder));
    const structs = kernelStructs();
    const cookie = netnsCookie();
    const scope = await chooseScope(settings.socketScope, cookie !== undefined);
    const layer = socketLayer(readObject(SOCKET_OBJECT), {
      cgroupRoot,
      netnsCookie: cookie,
      protectsNodePorts: settings.protectsNodePorts,
      socketScope: scope.used,
      kernelTypes: structs.ofSockets,
    });
    const sizes = maxEntries(mapSizes);
    const carry = await migrateMaps({
      ...{ bpfRoot, sizes, step, isTried, storage: storageOf(log) },
      table: () => readObject(CARRY_CONN_OBJECT),
      ...migratedLayers(bpfRoot, layer),
    });
    opened.push(carry);
    checkLayer({ layer, bpfRoot });
    const early = await beginPackets(settings, packetSettings(structs, features), network);
    // Direct return is tried while the kernel verifies on other threads.
    const [attached, noDirectReturn] = await Promise.all([
      attachSockets({ layer, bpfRoot, sizes }, carry, early),
      early && reasonForNoDirectReturn(log),
    ]);
    opened.push(attached);
    const { layer: packets, refused } = await openPackets(settings, {
      ...{ network, log, carry, early, mayHaveRules, features, look, totals, isAgain: isTried },
      hasDirectReturn: noDirectReturn === undefined,
    });
    if (packets !== undefined) opened.push(packets);
    await endMigration(carry, { bpfRoot, log });
    const knowsNode = cookie !== undefined;
    return overMaps(attached, settings, {
      ...{ close, log, refused, knowsNode, scope, network },
      noDirectReturn: noDirectReturn ?? packets?.noDirectReturn,
      ...(packets && { packets }),
    });
  } catch (error) {
    close();
    throw error;
  }
}

/** undefined: no programs on devices, or none on this kernel. */
async function beginPackets(
  { devices, bpfRoot, mapSizes }: BpfSettings,
  rodata: readonly Rodata[],
  network: NetworkFollower,
): Promise<EarlyPrograms | undefined> {
  if (devices === undefined || banOfRealtime() !== undefined) return undefined;
  const object = (): Uint8Array => readObject(PACKET_OBJECT);
  const names = neededPrograms(network.current(), devices.policy, bpfRoot);
  const parts = { object, bpfRoot, sizes: maxEntries(mapSizes) };
  return beginPrograms(parts, { names, rodata });
}

/** Takes the other programs back if these fail. */
async function attachSockets(
  options: AttachOptions,
  carry: Carry,
  early: EarlyPrograms | undefined,
): Promise<Attached> {
  const beforeLinks = async (): Promise<void> => void (await carry.before('sockets'));
  try {
    return await attachLayer({ ...options, beforeLinks, maps: early?.maps });
  } catch (error) {
    await early?.undo();
    throw error;
  }
}

/** One warning for each map. */
function storageOf(log: Logger): MigrationOptions['storage'] {
  const lost = new Set<string>();
  return {
    object: () => readObject(CARRY_OBJECT),
    lost: (map, err) => {
      if (lost.has(map)) return;
      lost.add(map);
      log.warn(
        { map, err },
        'records of open sockets could not be carried over: they may show the address of their backend in place of the Service until they are closed',
      );
    },
  };
}

type OverMapsParts = Pick<BpfParts, 'close' | 'log'> &
  Pick<Installation, 'refused'> &
  Pick<BpfFacts, 'noDirectReturn'> & {
    readonly packets?: PacketLayer;
    readonly knowsNode: boolean;
    readonly scope: ScopeChoice;
    readonly network: NetworkFollower;
  };

function overMaps(
  attached: Attached,
  { bpfRoot, cgroupRoot, mapSizes, resetsTcp, conntrack }: BpfSettings,
  { refused, knowsNode, noDirectReturn, scope, network, ...parts }: OverMapsParts,
): Dataplane {
  const packets = parts.packets !== undefined;
  const { hooks, rodata } = attached;
  const reasons = attached.map('fl_reason');
  const tables = kernelTables(attached.map);
  if (!packets) closeDirectPort(tables.runtime);
  const options = { folder: pinFolder(bpfRoot), sizes: maxEntries(mapSizes) };
  return createBpfDataplane({
    capabilities: bpfCapabilities({ packets, knowsNode, noDirectReturn }),
    withoutPackets: bpfCapabilities({ packets: false, knowsNode, noDirectReturn }),
    tables: {
      ...tables,
      ...(parts.packets && { traffic: parts.packets.traffic, direct: parts.packets.direct }),
    },
    baseSeconds: (protocol) => longestSilence(flowTimeouts(conntrack), protocol),
    waitGracePeriod,
    installation: {
      hooks,
      refusesWith: canSetRetval(rodata) ? 'ECONNREFUSED' : 'EPERM',
      cgroupRoot,
      bpfRoot,
      refused,
    },
    outcomes: () => readReasons(reasons),
    followNode: followNode(attached.map('fl_node')),
    scopes: createScopes({
      ...{ choice: scope, network, log: parts.log },
      netns: attached.map('fl_netns'),
      asked: attached.map('new_netns'),
      plain: attached.map('plain_netns'),
    }),
    staleSockets: (judge) =>
      createStaleSockets(
        {
          ...{ options, resetsTcp, waitGracePeriod, log: parts.log },
          name: parts.packets?.nameSockets,
          passesDevices: (paths) => passing(paths, parts.packets?.servedDevices() ?? []),
        },
        judge,
      ),
    ...parts,
  });
}

type MigratedLayers = Pick<MigrationOptions, 'layers' | 'optional' | 'digest'>;

/** That of packets may be refused, unless an earlier agent has attached it. */
function migratedLayers(bpfRoot: string, sockets: Layer): MigratedLayers {
  const packets = layerOf('packet layer', PACKET_OBJECT);
  const sweep = layerOf('sweep of flows', SWEEP_OBJECT);
  const digest = createHash('sha256');
  for (const { objects } of [sockets, packets, sweep]) {
    for (const { bytes } of objects) digest.update(bytes);
  }
  return {
    ...(isPacketLayerAttached(bpfRoot)
      ? { layers: [sockets, packets], optional: [sweep] }
      : { layers: [sockets], optional: [packets, sweep] }),
    digest: digest.digest('hex'),
  };
}

/** Without its object it has no maps: that is reported where it is loaded. */
function layerOf(name: string, object: string): Layer {
  const objects = existsSync(bpfObjectPath(object))
    ? [{ bytes: readObject(object), rodata: [{}] }]
    : [];
  return { name, objects, hooks: [] };
}

const isPacketLayerAttached = (bpfRoot: string): boolean =>
  devicePins(pinFolder(bpfRoot).links).length > 0;

/** Programs that were replaced may still run for a moment. */
async function endMigration(
  carry: Carry,
  { bpfRoot, log }: { bpfRoot: string; log: Logger },
): Promise<void> {
  if (carry === NOTHING_TO_CARRY) {
    giveAllPorts({ bpfRoot });
    return;
  }
  await carry.linked();
  await waitGracePeriod();
  await carry.after();
  log.info(
    { maps: carry.maps },
    'maps got another layout or size, their entries were carried over',
  );
}

async function openPackets(
  { devices, bpfRoot, mapSizes, resetsTcp, answersPing, conntrack, secretFile }: BpfSettings,
  {
    network,
    log,
    carry,
    early,
    mayHaveRules,
    features,
    look,
    totals,
    isAgain,
    hasDirectReturn,
  }: Pick<OpenParts, 'network' | 'log' | 'look' | 'totals'> & {
    readonly features: Features;
    readonly isAgain: boolean;
    readonly mayHaveRules: () => boolean;
    readonly carry: Carry;
    readonly early: EarlyPrograms | undefined;
    readonly hasDirectReturn: boolean;
  },
): Promise<OpenedPackets> {
  const isAttached = isPacketLayerAttached(bpfRoot);
  if (devices === undefined || early === undefined) {
    const refused = devices && (await orWithoutPackets(refuseRealtime, { log, isAttached }));
    removePacketLayer(bpfRoot);
    return refused ?? { layer: undefined, refused: [] };
  }
  let opened: OpenedPackets | undefined;
  try {
    const parts = {
      programs: early.programs,
      sweepObject: readObject(SWEEP_OBJECT),
      readObject,
      sizes: maxEntries(mapSizes),
      timeouts: flowTimeouts(conntrack),
      ...{ bpfRoot, resetsTcp, answersPing, hasDirectReturn, secretFile },
      ...{ network, log, mayHaveRules, features, look, totals, isAgain },
      beforeLinks: () => carryFlows(carry, early),
      beforeLink: () => carry.hold(),
      afterLinks: () => carry.release(),
    };
    opened = await orWithoutPackets(() => openPacketLayer(devices, parts), { log, isAttached });
    return opened;
  } finally {
    if (opened?.layer !== undefined) early.closeMaps();
    else {
      await early.close();
      // Refused after its maps were pinned.
      if (!isAttached) removePacketLayer(bpfRoot);
    }
  }
}

async function carryFlows(carry: Carry, early: EarlyPrograms): Promise<void> {
  const { programs, canBeNext } = await early.programs;
  await carry.before('flows', canBeNext ? programs : undefined);
}

const refuseRealtime = (): Promise<never> =>
  Promise.reject(new FairleadError('PROGRAM_REFUSED', banOfRealtime() ?? 'no packet programs'));

function readObject(name: string): Uint8Array {
  const path = bpfObjectPath(name);
  if (!existsSync(path)) {
    throw new FairleadError('NO_OBJECT', `${path} is missing: build it with \`npm run build:bpf\``);
  }
  return readFileSync(path);
}
