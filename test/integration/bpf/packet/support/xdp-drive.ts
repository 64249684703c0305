// SPDX-License-Identifier: Apache-2.0
// The program at XDP over the maps of a PacketDrive.
import { readFileSync } from 'node:fs';
import { connRodata } from '../../../../../src/engines/bpf/conn/sizes.ts';
import { encodeU32 } from '../../../../../src/engines/bpf/layout/layout.ts';
import { encodeDevice } from '../../../../../src/engines/bpf/layout/packet-layout.ts';
import { encodeXdpEnd, type XdpLink } from '../../../../../src/engines/bpf/xdp/links.ts';
import type { Family } from '../../../../../src/model/types.ts';
import {
  type BpfObject,
  type BpfProgram,
  openObject,
  possibleCpus,
} from '../../../../../src/sys/native.ts';
import { xdpObject } from '../../support/drive.ts';
import { POD, SECOND, UPLINK } from './uplinks.ts';

/** Enum xdp_action. */
export const XDP = { aborted: 0, drop: 1, pass: 2, tx: 3, redirect: 4 } as const;

/** What XDP has found out in this second. */
const KNOWN = ['fl_xdp_way', 'fl_xdp_known'];
/** Maps that the object does not share with others: constants, the record of the packet, and what only XDP needs to know. */
const OWN = [...KNOWN, 'fl_this_packet', 'fl_xdp_link'];

interface Devices {
  readonly snat?: Partial<Record<Family, string>>;
  readonly isPod?: boolean;
  readonly areTargets?: boolean;
  /** Of the first uplink, in place of its own. */
  readonly mac?: string;
  /** The program knows nothing any more: true, unless told otherwise. */
  readonly isNextSecond?: boolean;
}

/** Of a frame that comes in by this device. */
export function contextOf(frame: Uint8Array, ifindex: number = UPLINK.ifindex): Uint8Array {
  // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
  const context = new Uint8Array(24);
  const view = new DataView(context.buffer);
  view.setUint32(4, frame.length, true);
  view.setUint32(12, ifindex, true);
  return context;
}

export class XdpDrive {
  readonly #object: BpfObject;
  readonly #program: BpfProgram;
  readonly #shared: BpfObject;

  constructor(shared: BpfObject) {
    this.#shared = shared;
    this.#object = openObject(readFileSync(xdpObject), { name: 'xdp' });
    const buckets = (digit: 4 | 6): number => shared.map(`fl_client${digit}`).info.maxEntries;
    const rodata = connRodata({ fl_client4: buckets(4), fl_client6: buckets(6) });
    for (const [name, value] of Object.entries(rodata)) this.#object.setRodata(name, value);
    for (const name of this.#object.maps) {
      if (name.includes('.') || OWN.includes(name)) continue;
      const map = shared.map(name);
      this.#object.setMaxEntries(name, map.info.maxEntries);
      this.#object.reuseMap(name, map);
    }
    this.#object.load();
    this.#program = this.#object.program('fl_xdp');
  }

  close(): void {
    this.#object.close();
  }

  get program(): BpfProgram {
    return this.#program;
  }

  /** What the agent writes about the devices of uplinks.ts. */
  putDevices({
    snat = {},
    isPod = false,
    areTargets = true,
    mac = UPLINK.mac,
    isNextSecond = true,
  }: Devices = {}): void {
    for (const { ifindex, mac: own } of [UPLINK, SECOND, POD]) {
      const takesFrames = areTargets && ifindex !== POD.ifindex;
      const value = encodeDevice({
        ...{ ifindex, takesFrames, snat, isPod },
        mac: ifindex === UPLINK.ifindex ? mac : own,
        ...{ leadsToPod: isPod, dropsOthers: true, isUplink: !isPod, isTunnel: false },
      });
      this.#shared.map('fl_device').put(encodeU32(ifindex), value);
    }
    if (isNextSecond) this.nextSecond();
  }

  putLinks(...links: readonly XdpLink[]): void {
    const map = this.#object.map('fl_xdp_link');
    for (const { from, to } of links) map.put(encodeXdpEnd(from), encodeXdpEnd(to));
    this.nextSecond();
  }

  /** The program knows nothing any more, as when a second has passed. */
  nextSecond(): void {
    for (const map of KNOWN.map((name) => this.#object.map(name))) {
      const nothing = new Uint8Array(possibleCpus() * map.info.valueSize);
      for (let key = 0; key < map.info.maxEntries; key += 1) map.put(encodeU32(key), nothing);
    }
  }

  /** What a packet before, at XDP or at tc, has left in memory that both share. */
  scribble(byte: number): void {
    const map = this.#object.map('fl_this_packet');
    map.put(encodeU32(0), new Uint8Array(possibleCpus() * map.info.valueSize).fill(byte));
  }

  /** A frame that comes in by this device. */
  run(
    frame: Uint8Array,
    { ifindex } = UPLINK,
  ): { readonly action: number; readonly frame: Uint8Array } {
    const contextIn = contextOf(frame, ifindex);
    const { retval, dataOut } = this.#program.testRun({ dataIn: frame, contextIn });
    return { action: retval, frame: dataOut };
  }
}
