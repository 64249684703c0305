// SPDX-License-Identifier: Apache-2.0
import { expect, test, vi } from 'vitest';
import type { PacketLayer } from '../../../../../src/dataplane/bpf/packet/layer.ts';
import { orWithoutPackets } from '../../../../../src/dataplane/bpf/packet/refusal.ts';
import { type ErrorCode, FairleadError } from '../../../../../src/errors.ts';

const layer = {} as PacketLayer;
const fails = (code: ErrorCode) => async (): Promise<PacketLayer> => {
  throw new FairleadError(code, `it is ${code}`);
};

test('a layer that the kernel takes is opened, without a word', async () => {
  const warn = vi.fn();
  const opened = await orWithoutPackets(async () => layer, { isAttached: false, log: { warn } });
  expect(opened).toEqual({ layer, refused: [] });
  expect(warn).not.toHaveBeenCalled();
});

test.each(['PROGRAM_REFUSED', 'ATTACH_FAILED'] as const)(
  'after %s sockets are served alone, and it is said',
  async (code) => {
    const warn = vi.fn();
    const opened = await orWithoutPackets(fails(code), { isAttached: false, log: { warn } });
    const reason = `it is ${code}`;
    expect(opened).toEqual({ layer: undefined, refused: [{ layer: 'packet layer', reason }] });
    expect(warn.mock.calls).toEqual([[{ reason }, expect.stringContaining('only sockets')]]);
  },
);

test('what an operator can mend ends the start', async () => {
  const parts = { isAttached: false, log: { warn: vi.fn() } };
  for (const code of ['OTHER_SIZES', 'OTHER_LAYOUT', 'NO_PRIVILEGE'] as const) {
    await expect(orWithoutPackets(fails(code), parts)).rejects.toMatchObject({ code });
  }
});

test('a refusal ends the start where an earlier agent serves packets', async () => {
  const parts = { isAttached: true, log: { warn: vi.fn() } };
  const opening = orWithoutPackets(fails('PROGRAM_REFUSED'), parts);
  await expect(opening).rejects.toMatchObject({ code: 'PROGRAM_REFUSED' });
});
