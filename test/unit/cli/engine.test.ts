// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { chooseEngine } from '../../../src/cli/engine.ts';
import { loadConfig } from '../../../src/config/load.ts';
import type { Engine } from '../../../src/config/types.ts';
import { FairleadError } from '../../../src/errors.ts';

const configOf = (engine: Engine, flags = {}) =>
  loadConfig({ engine, 'bpf-root': '/nonexistent', ...flags }).config;

const lacking = (): never => {
  throw new FairleadError('NO_BTF', 'this kernel has no BTF');
};

test('iptables and userspace are not checked for eBPF', () => {
  expect(chooseEngine(configOf('userspace'), lacking)).toEqual({ engine: 'userspace' });
  expect(chooseEngine(configOf('iptables'), lacking)).toEqual({ engine: 'iptables' });
});

test.each(['auto', 'bpf'] as const)('%s is bpf where nothing is missing', (asked) => {
  expect(chooseEngine(configOf(asked), () => undefined)).toEqual({ engine: 'bpf' });
});

test('a forced engine that cannot work fails with the reason', () => {
  expect(() => chooseEngine(configOf('bpf'), lacking)).toThrow('this kernel has no BTF');
});

test.skipIf(process.getuid?.() !== 0)('auto is iptables, with the reason', () => {
  const chosen = { engine: 'iptables', reason: 'this kernel has no BTF' };
  expect(chooseEngine(configOf('auto'), lacking)).toEqual(chosen);
});

test('auto with --devices none fails: packets are left to somebody else', () => {
  const config = configOf('auto', { devices: 'none' });
  expect(() => chooseEngine(config, lacking)).toThrow('this kernel has no BTF');
});
