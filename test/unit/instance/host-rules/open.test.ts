// SPDX-License-Identifier: Apache-2.0
// Who is told when packets move, and when nothing is followed at all.
import { expect, test, vi } from 'vitest';
import type { ComposedDataplane } from '../../../../src/engines/dataplane.ts';
import type { Fallback } from '../../../../src/engines/snapshot.ts';
import { hostRulesOf, takesPacketsBack } from '../../../../src/instance/host-rules/open.ts';

const FALLBACK: Fallback = { what: 'packets', reason: 'the kernel refuses the programs' };

function dataplaneWith(fallback?: Fallback) {
  const installation = { fallback } as { fallback: Fallback | undefined };
  const leaveNewPackets = vi.fn();
  return { installation, leaveNewPackets } as unknown as ComposedDataplane & typeof spied;
}
const spied = { leaveNewPackets: vi.fn(), installation: { fallback: undefined as unknown } };

test('where rules serve packets from the start, filters of the node are in nobody’s way', () => {
  const settings = { mayMove: true, periodMs: 1_000 };
  const none = {} as Parameters<typeof hostRulesOf>[2];
  expect(hostRulesOf(settings, dataplaneWith(FALLBACK), none)).toBeUndefined();
  expect(hostRulesOf(undefined, dataplaneWith(), none)).toBeUndefined();
});

test('eBPF takes packets back after a whole sync, once after each move', () => {
  const dataplane = dataplaneWith();
  const packets = takesPacketsBack(dataplane);
  packets.synced({ isFull: false });
  expect(dataplane.leaveNewPackets).not.toHaveBeenCalled();
  for (const _ of [1, 2]) packets.synced({ isFull: true });
  expect(dataplane.leaveNewPackets.mock.calls).toEqual([[false]]);
  dataplane.installation.fallback = FALLBACK;
  packets.packetsMoved();
  packets.synced({ isFull: true });
  expect(dataplane.leaveNewPackets).toHaveBeenCalledTimes(1);
  dataplane.installation.fallback = undefined;
  packets.packetsMoved();
  packets.synced({ isFull: true });
  expect(dataplane.leaveNewPackets).toHaveBeenCalledTimes(2);
});
