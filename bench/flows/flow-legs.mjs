// SPDX-License-Identifier: Apache-2.0
// Flows as the entries that the packet programs make of them: keys differ, values have the size that the map has.
// Clients are behind many addresses and ports, backends are 1,000, as on a busy node.

/** Elements of one call. */
const BATCH = 16_384;

/** Bytes, by the digit of the family. */
const KEY = { 4: 16, 6: 40 };

/** What a flow consists of. */
export const KINDS = [
  { name: 'IPv4', digit: 4, legs: ['flow', 'nat'] },
  { name: 'IPv4, masqueraded', digit: 4, legs: ['flow', 'nat', 'snat'] },
  { name: 'IPv6', digit: 6, legs: ['flow', 'nat'] },
  { name: 'IPv6, masqueraded', digit: 6, legs: ['flow', 'nat', 'snat'] },
];

/** The entries of the flows from number `from` to number `to`, for these maps. */
export function* batchesOf({ digit, legs }, { from, to }, maps) {
  for (let start = from; start < to; start += BATCH) {
    const count = Math.min(BATCH, to - start);
    for (const leg of legs) {
      const keys = Buffer.alloc(count * KEY[digit]);
      for (let n = 0; n < count; n += 1) writeKey(keys, n * KEY[digit], start + n, digit);
      const map = maps.map(`fl_${leg}${digit}`);
      const values = Buffer.alloc(count * map.info.valueSize, 1);
      yield { map, keys, values };
    }
  }
}

/** Source, destination, ports, TCP: each flow another one. */
function writeKey(keys, at, flow, digit) {
  const width = digit === 4 ? 4 : 16;
  keys.writeUInt32BE(0xc6336400 + (flow >>> 4), at + width - 4);
  keys.writeUInt32BE(0x0a010000 + (flow % 1000), at + 2 * width - 4);
  keys.writeUInt16LE(1024 + (flow & 15) * 4000 + (flow % 3999), at + 2 * width);
  keys.writeUInt16LE(8080, at + 2 * width + 2);
  keys[at + 2 * width + 4] = 6;
}
