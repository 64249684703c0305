// SPDX-License-Identifier: Apache-2.0
// fl_xdp_link: which device of the network stack a frame belongs to, and by which one those of a VLAN leave (bpf/packet/xdp/vlan.h).
import type { BpfMap } from '../../../sys/native.ts';

/** A device, and the tag of frames as it is in them: 0x81000007 for VLAN 7; 0: they have none. */
export interface XdpEnd {
  readonly ifindex: number;
  readonly tag: number;
}

export interface XdpLink {
  readonly from: XdpEnd;
  readonly to: XdpEnd;
}

const SIZE = 8;

export function encodeXdpEnd({ ifindex, tag }: XdpEnd): Uint8Array {
  const bytes = new Uint8Array(SIZE);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, ifindex, true);
  view.setUint32(4, tag, false);
  return bytes;
}

/** A device that forwards by XDP, and the devices that its frames belong to. */
export interface XdpFamily {
  readonly ifindex: number;
  /** Of a bond, by ifindex: its frames come in by these. */
  readonly ports: readonly number[];
  readonly vlans: readonly XdpEnd[];
}

export function linksOf(families: readonly XdpFamily[]): readonly XdpLink[] {
  return families.flatMap(({ ifindex, ports, vlans }) => {
    const ways = ports.length > 0 ? ports : [ifindex];
    const untagged = ports.map((port) => linkOf({ ifindex: port, tag: 0 }, { ifindex, tag: 0 }));
    return [
      ...untagged,
      ...vlans.flatMap((vlan) => {
        const device = { ifindex: vlan.ifindex, tag: 0 };
        const into = ways.map((way) => linkOf({ ifindex: way, tag: vlan.tag }, device));
        return [...into, linkOf(device, { ifindex, tag: vlan.tag })];
      }),
    ];
  });
}

const linkOf = (from: XdpEnd, to: XdpEnd): XdpLink => ({ from, to });

/** Only what is not as it was is written. What does not fit is left to tc. */
export function writeLinks(
  map: Pick<BpfMap, 'put' | 'delete'>,
): (links: readonly XdpLink[]) => void {
  const written = new Map<string, XdpLink>();
  return (links) => {
    const wanted = new Map(links.map((link) => [JSON.stringify(link.from), link]));
    for (const [key, { from, to }] of written) {
      const next = wanted.get(key)?.to;
      if (next?.ifindex === to.ifindex && next.tag === to.tag) continue;
      map.delete(encodeXdpEnd(from));
      written.delete(key);
    }
    for (const [key, link] of wanted) {
      if (written.has(key)) continue;
      map.put(encodeXdpEnd(link.from), encodeXdpEnd(link.to));
      written.set(key, link);
    }
  };
}
