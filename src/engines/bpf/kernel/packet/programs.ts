// SPDX-License-Identifier: Apache-2.0
// The programs of devices. The kernel verifies for longer than all else in a start takes, and most nodes have no device whose
// packets begin with the IP header: programs for those are loaded with the first one.

import { type KernelStructs, kernelStructs } from '../../../../sys/btf/structs.ts';
import type { BpfMap, BpfProgram } from '../../../../sys/native.ts';
import type { Network } from '../../../../sys/netlink/network.ts';
import { type DevicePolicy, decideDevices } from '../../devices/policy.ts';
import { ALL_FEATURES, featureRodata } from '../../features.ts';
import {
  DEVICE_PROGRAMS,
  ETHERNET_PROGRAMS,
  L3_PROGRAMS,
  type Layer,
  type Rodata,
} from '../../layer.ts';
import { encodeU32 } from '../../layout/layout.ts';
import type { Features } from '../../layout/packet-layout.ts';
import { devicePins } from '../devices/device-pins.ts';
import { attachLayer } from '../loader/attach.ts';
import { pinFolder } from '../loader/pins.ts';
import { closeAll } from '../loader/undo.ts';

/** The layer as data: its programs are attached as devices come. Those of the two directions are verified at the same time. */
export const packetPrograms = (
  object: Uint8Array,
  programs: readonly string[] = DEVICE_PROGRAMS,
  rodata: readonly Rodata[] = packetSettings(kernelStructs()),
): Layer => ({
  name: 'packet layer',
  objects: [
    {
      ...{ bytes: object, rodata },
      without: DEVICE_PROGRAMS.filter((name) => !programs.includes(name)),
      apart: programs.filter((name) => name.startsWith('fl_egress')),
    },
  ],
  hooks: [],
  keeps: programs,
});

/**
 * A kernel refuses the first ones if it has no JIT, or one that makes no tail calls beside calls of functions, and one that lets
 * no program read its memory all but the last.
 */
export const packetSettings = (
  { ipSummedAt, castFunction }: Pick<KernelStructs, 'ipSummedAt' | 'castFunction'>,
  features: Features = ALL_FEATURES,
): readonly Rodata[] => {
  const calling = { ...featureRodata(features), with_tail_calls: YES };
  const reading = { ip_summed_at: encodeU32(ipSummedAt), ...calling };
  const casting = { cast_function: encodeU32(castFunction), ...reading };
  const isCast = castFunction !== 0 && ipSummedAt !== 0;
  return [
    ...(isCast ? [casting] : []),
    ...[reading, { ...reading, with_tail_calls: NO }],
    ...[calling, { ...calling, with_tail_calls: NO }],
  ];
};

const YES = Uint8Array.of(1);
const NO = Uint8Array.of(0);

/** For the devices that there are, and for those that an earlier agent has served. */
export function neededPrograms(
  network: Network,
  policy: DevicePolicy,
  bpfRoot: string,
): readonly string[] {
  const pinned = devicePins(pinFolder(bpfRoot).links);
  const needsL3 =
    pinned.some(({ program }) => L3_PROGRAMS.includes(program)) ||
    decideDevices(network, policy).some(({ isWanted, isL3 }) => isWanted && isL3);
  return needsL3 ? DEVICE_PROGRAMS : ETHERNET_PROGRAMS;
}

export interface DevicePrograms {
  readonly map: (name: string) => BpfMap;
  readonly maps: ReadonlyMap<string, BpfMap>;
  /** By name, as far as they are loaded. */
  readonly programs: ReadonlyMap<string, BpfProgram>;
  /** Those of a former table can call them. */
  readonly canBeNext: boolean;
  /** Adds others. Throws FairleadError. */
  load(names: readonly string[]): Promise<void>;
  /** What is pinned stays. */
  close(): void;
}

export interface ProgramsParts {
  /** Read again for each load: it is large. */
  readonly object: () => Uint8Array;
  readonly bpfRoot: string;
  readonly sizes: Readonly<Record<string, number>>;
}

export interface First {
  readonly names: readonly string[];
  readonly rodata: readonly Rodata[];
}

interface Made {
  /** As `object` reads them. */
  readonly bytes: Uint8Array;
  readonly shared: ReadonlyMap<string, BpfMap> | undefined;
}

/** Throws FairleadError. */
export async function openPrograms(
  { object, bpfRoot, sizes }: ProgramsParts,
  { names, rodata: settings }: First,
  { bytes, shared }: Made,
): Promise<DevicePrograms> {
  const layer = packetPrograms(bytes, names, settings);
  const first = await attachLayer({ layer, bpfRoot, sizes, maps: shared });
  const { map, maps, rodata } = first;
  const programs = new Map(first.programs);
  const opened: { close(): void }[] = [first];
  let isClosed = false;
  return {
    map,
    maps,
    programs,
    canBeNext: rodata.every((settings) => settings['with_tail_calls'] === YES),
    async load(more) {
      const later = packetPrograms(object(), more, rodata);
      const loaded = await attachLayer({ layer: later, bpfRoot, sizes, maps });
      closeAll(loaded.maps.values());
      if (isClosed) {
        loaded.close();
        return;
      }
      opened.push(loaded);
      for (const [name, program] of loaded.programs) programs.set(name, program);
    },
    close() {
      isClosed = true;
      for (const part of opened.splice(0).reverse()) part.close();
    },
  };
}
