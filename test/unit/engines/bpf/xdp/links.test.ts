// SPDX-License-Identifier: Apache-2.0
// Which devices frames of cards, bonds and VLANs belong to, and what of it is written when it changes.
import { expect, test } from 'vitest';
import { encodeXdpEnd, linksOf, writeLinks } from '../../../../../src/engines/bpf/xdp/links.ts';

const VLAN7 = 0x8100_0007;
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const text = (...families: Parameters<typeof linksOf>[0]): string[] =>
  linksOf(families).map(({ from, to }) =>
    [from, to].map(({ ifindex, tag }) => `${ifindex}:${tag.toString(16)}`).join(' > '),
  );

test('an end is as struct xdp_link has it', () => {
  expect(hex(encodeXdpEnd({ ifindex: 0x102, tag: VLAN7 }))).toBe('0201000081000007');
});

test('a card has links for its VLANs alone, a bond for each of its ports', () => {
  const vlans = [{ ifindex: 5, tag: VLAN7 }];
  expect(text({ ifindex: 2, ports: [], vlans: [] })).toEqual([]);
  expect(text({ ifindex: 2, ports: [], vlans })).toEqual(['2:81000007 > 5:0', '5:0 > 2:81000007']);
  expect(text({ ifindex: 4, ports: [2, 3], vlans })).toEqual([
    ...['2:0 > 4:0', '3:0 > 4:0'],
    ...['2:81000007 > 5:0', '3:81000007 > 5:0', '5:0 > 4:81000007'],
  ]);
});

test('only what has changed is written', () => {
  const done: string[] = [];
  const write = writeLinks({
    put: (key, value) => void done.push(`put ${hex(key)} ${hex(value)}`),
    delete: (key) => done.push(`delete ${hex(key)}`) > 0,
  });
  const one = linksOf([{ ifindex: 4, ports: [2], vlans: [] }]);
  write(one);
  write(one);
  write(linksOf([{ ifindex: 5, ports: [2], vlans: [] }]));
  write([]);
  expect(done).toEqual([
    'put 0200000000000000 0400000000000000',
    'delete 0200000000000000',
    'put 0200000000000000 0500000000000000',
    'delete 0200000000000000',
  ]);
});
