// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { reasonForNoHooks } from '../../../../../src/engines/bpf/devices/no-hooks.ts';

describe('a kernel without hooks for devices', () => {
  const none = { isAttached: false, isFailed: false, reason: 'loopback' };
  const missing = { isAttached: false, isFailed: true, reason: 'bpf_tc_hook_create: ENOENT: no' };
  const taken = { isAttached: false, isFailed: true, reason: 'somebody else has a filter' };
  const attached = { isAttached: true, isFailed: false, reason: 'a veth' };

  test.each([
    ['every device that should have programs', [none, missing, missing], missing.reason],
    ['no device should have any', [none], undefined],
    ['another device has them', [attached, missing], undefined],
    ['a device fails for a reason of its own', [missing, taken], undefined],
  ])('%s: %#', (_, devices, reason) => {
    expect(reasonForNoHooks(devices)).toBe(reason);
  });
});
