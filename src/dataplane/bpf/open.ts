// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane of one instance: programs attached (or those of an earlier agent adopted), tables over
// its maps. Throws FairleadError; then nothing is left attached that was not there before.
import { existsSync, readFileSync } from 'node:fs';
import { FairleadError } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import { netnsCookie, waitGracePeriod } from '../../sys/native.ts';
import type { NetworkFollower } from '../../sys/netlink/follow.ts';
import { bpfObjectPath } from '../../sys/package.ts';
import { bpfCapabilities } from '../capabilities.ts';
import type { Dataplane } from '../dataplane.ts';
import type { Installation } from '../snapshot.ts';
import { type BpfParts, createBpfDataplane } from './dataplane.ts';
import { devicePins } from './devices/device-pins.ts';
import { type Attached, attachLayer } from './loader/attach.ts';
import { canSetRetval, socketLayer } from './loader/layer.ts';
import { lockPins, type PinHolder } from './loader/lock.ts';
import { pinFolder } from './loader/pins.ts';
import { maxEntries } from './loader/sizes.ts';
import { readReasons } from './maps/counters.ts';
import { kernelTables } from './maps/kernel.ts';
import { followNode } from './node-map.ts';
import {
  type DeviceSettings,
  openPacketLayer,
  type PacketLayer,
  removePacketLayer,
} from './packet/layer.ts';
import { type OpenedPackets, orWithoutPackets } from './packet/refusal.ts';
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
  /** undefined: no programs on devices, sockets alone are served. */
  readonly devices: DeviceSettings | undefined;
  /** Processes of the node cannot bind NodePorts. */
  readonly protectsNodePorts: boolean;
}

const SOCKET_OBJECT = 'sock.bpf.o';
const PACKET_OBJECT = 'packet.bpf.o';
const SWEEP_OBJECT = 'sweep.bpf.o';

interface OpenParts {
  /** Of the node; the caller closes it. */
  readonly network: NetworkFollower;
  readonly log: Logger;
}

export async function openBpfDataplane(
  settings: BpfSettings,
  { network, log }: OpenParts,
): Promise<Dataplane> {
  const { bpfRoot, holder, cgroupRoot, mapSizes } = settings;
  const opened: { close(): void }[] = [];
  const close = (): void => {
    for (const part of opened.splice(0).reverse()) part.close();
  };
  try {
    opened.push(lockPins(bpfRoot, holder));
    const attached = await attachLayer({
      layer: socketLayer(readObject(SOCKET_OBJECT), {
        cgroupRoot,
        netnsCookie: netnsCookie(),
        protectsNodePorts: settings.protectsNodePorts,
      }),
      bpfRoot,
      sizes: maxEntries(mapSizes),
    });
    opened.push(attached);
    const { layer: packets, refused } = await openPackets(settings, { network, log });
    if (packets !== undefined) opened.push(packets);
    return overMaps(attached, settings, { close, log, refused, ...(packets && { packets }) });
  } catch (error) {
    close();
    throw error;
  }
}

type OverMapsParts = Pick<BpfParts, 'close' | 'log'> &
  Pick<Installation, 'refused'> & { readonly packets?: PacketLayer };

function overMaps(
  attached: Attached,
  { bpfRoot, cgroupRoot, mapSizes, resetsTcp }: BpfSettings,
  { refused, ...parts }: OverMapsParts,
): Dataplane {
  const { hooks, rodata } = attached;
  const reasons = attached.map('fl_reason');
  const options = { folder: pinFolder(bpfRoot), sizes: maxEntries(mapSizes) };
  return createBpfDataplane({
    capabilities: bpfCapabilities({ packets: parts.packets !== undefined }),
    tables: {
      ...kernelTables(attached.map),
      ...(parts.packets && { traffic: parts.packets.traffic }),
    },
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
    staleSockets: (isServed) =>
      createStaleSockets({ options, resetsTcp, waitGracePeriod, log: parts.log }, isServed),
    ...parts,
  });
}

async function openPackets(
  { devices, bpfRoot, mapSizes, resetsTcp, answersPing }: BpfSettings,
  { network, log }: OpenParts,
): Promise<OpenedPackets> {
  if (devices === undefined) {
    removePacketLayer(bpfRoot);
    return { layer: undefined, refused: [] };
  }
  const parts = {
    object: readObject(PACKET_OBJECT),
    sweepObject: readObject(SWEEP_OBJECT),
    sizes: maxEntries(mapSizes),
    ...{ bpfRoot, resetsTcp, answersPing, network, log },
  };
  const opened = await orWithoutPackets(() => openPacketLayer(devices, parts), {
    log,
    isAttached: devicePins(pinFolder(bpfRoot).links).length > 0,
  });
  // Refused after its maps were pinned.
  if (opened.layer === undefined) removePacketLayer(bpfRoot);
  return opened;
}

function readObject(name: string): Uint8Array {
  const path = bpfObjectPath(name);
  if (!existsSync(path)) {
    throw new FairleadError('NO_OBJECT', `${path} is missing: build it with \`npm run build:bpf\``);
  }
  return readFileSync(path);
}
