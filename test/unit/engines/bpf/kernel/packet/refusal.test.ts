// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { PacketLayer } from '../../../../../../src/engines/bpf/kernel/packet/layer.ts';
import {
  banOfRealtime,
  orWithoutPackets,
} from '../../../../../../src/engines/bpf/kernel/packet/refusal.ts';
import { type ErrorCode, FairleadError } from '../../../../../../src/errors.ts';

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

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fairlead-realtime-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  ['#1 SMP PREEMPT_RT Debian 6.12.43-1 (2025-08-27)', undefined, true],
  ['#17~22.04.1-Ubuntu SMP PREEMPT_RT Fri Mar 7', '1', true],
  ['#1 SMP PREEMPT RT Tue Mar 1', undefined, true],
  ['#1 SMP Tue Mar 1', '1', true],
  ['#1 SMP PREEMPT_DYNAMIC Debian 6.1.140-1 (2025-05-22)', undefined, false],
  ['#1 SMP PREEMPT Tue Mar 1', '0', false],
  [undefined, undefined, false],
])('PREEMPT_RT by version %s, /sys/kernel/realtime %s: %s', (versionText, flagText, expected) => {
  const [version, realtime] = [join(folder, 'version'), join(folder, 'realtime')];
  for (const [path, text] of [
    [version, versionText],
    [realtime, flagText],
  ] as const) {
    rmSync(path, { force: true });
    if (text !== undefined) writeFileSync(path, `${text}\n`);
  }
  expect(banOfRealtime({ realtime, version }) !== undefined).toBe(expected);
});
