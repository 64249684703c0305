// SPDX-License-Identifier: Apache-2.0
import { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import {
  addInstanceFlags,
  durationMs,
  type InstanceOptions,
  planSettings,
} from '../../../src/cli/flags.ts';

function settings(...args: string[]) {
  const command = addInstanceFlags(new Command())
    .exitOverride()
    .configureOutput({ writeErr: () => undefined });
  command.parse(['--hostname-override', 'N1 ', ...args], { from: 'user' });
  return planSettings(command.opts<InstanceOptions>());
}

describe('instance flags', () => {
  test('defaults are those of kube-proxy', () => {
    expect(settings()).toEqual({
      nodeName: 'n1',
      detectLocalMode: 'ClusterCIDR',
      clusterCidrs: [],
      masqueradeAll: false,
      nodePortAddresses: [],
      allowExternalIps: true,
    });
  });

  test('lists are split and trimmed', () => {
    expect(settings('--cluster-cidr', '10.1.0.0/16, fd00:10::/56').clusterCidrs).toEqual([
      '10.1.0.0/16',
      'fd00:10::/56',
    ]);
    expect(settings('--nodeport-addresses', 'primary,10.0.0.0/8').nodePortAddresses).toEqual([
      'primary',
      '10.0.0.0/8',
    ]);
  });

  test('a bind address that is any address is none', () => {
    expect(settings('--bind-address', '::')).not.toHaveProperty('bindAddress');
    expect(settings('--bind-address', '192.0.2.1').bindAddress).toBe('192.0.2.1');
  });

  const refused: readonly (readonly [args: string[], says: RegExp])[] = [
    [['--cluster-cidr', '10.1.0.0'], /10\.1\.0\.0 is not a CIDR/],
    [['--bind-address', 'here'], /here is not an IP address/],
    [['--detect-local-mode', 'Guess'], /Allowed choices are ClusterCIDR/],
    [['--detect-local-mode', 'InterfaceNamePrefix'], /needs --pod-interface-name-prefix/],
    [['--hostname-override', ' '], /must not be empty/],
  ];
  test.each(refused)('%j is refused', (args, says) => {
    expect(() => settings(...args)).toThrow(says);
  });
});

test('durations have units', () => {
  expect(['250ms', '1.5s', '10m', '1h'].map(durationMs)).toEqual([250, 1_500, 600_000, 3_600_000]);
  for (const bad of ['10', '', '0s', '-1s', '1d'])
    expect(() => durationMs(bad)).toThrow(/is not a duration/);
});
