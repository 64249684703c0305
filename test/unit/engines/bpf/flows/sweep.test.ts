// SPDX-License-Identifier: Apache-2.0
// In how many calls the tables of connections are swept: each looks at no more buckets than the program takes.
import { expect, test } from 'vitest';
import { createSweep } from '../../../../../src/engines/bpf/flows/sweep/sweep.ts';
import { PACKET_SIZE } from '../../../../../src/engines/bpf/layout/packet-layout.ts';

/** Where a frame has the call. */
const AT = 14;

function sweepOf(buckets: { readonly IPv4: number; readonly IPv6: number }, refused = -1) {
  const calls: (readonly [family: number, first: number, count: number])[] = [];
  const sweep = createSweep({
    run(frame) {
      const at = new DataView(frame.buffer, frame.byteOffset);
      calls.push([at.getUint8(AT), at.getUint32(AT + 4, true), at.getUint32(AT + 8, true)]);
      return calls.length - 1 === refused ? 1 : 0;
    },
    swept: () => new Uint8Array(PACKET_SIZE.swept),
    buckets: (family) => buckets[family],
  });
  return { sweep, calls };
}

test('a round comes by every bucket once, IPv4 before IPv6', () => {
  const { sweep, calls } = sweepOf({ IPv4: 1_100, IPv6: 512 });
  expect(sweep.steps).toBe(4);
  const ends = Array.from({ length: 8 }, () => sweep.step());
  expect(ends).toEqual([false, false, false, true, false, false, false, true]);
  expect(calls.slice(0, 4)).toEqual([
    [4, 0, 512],
    [4, 512, 512],
    [4, 1024, 76],
    [6, 0, 512],
  ]);
  expect(calls.slice(4)).toEqual(calls.slice(0, 4));
});

test.each([0, 1])('a refused call (%i) is told, and the next ones are made', (refused) => {
  const { sweep, calls } = sweepOf({ IPv4: 1, IPv6: 1 }, refused);
  const step = (): unknown => {
    try {
      return sweep.step();
    } catch (error) {
      return (error as Error).message;
    }
  };
  const found = [step(), step(), step(), step()];
  expect(found[refused]).toBe('fl_sweep returned 1');
  expect(found.slice(2)).toEqual([false, true]);
  expect(calls).toHaveLength(4);
});
