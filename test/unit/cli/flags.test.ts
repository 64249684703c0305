// SPDX-License-Identifier: Apache-2.0
import { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { addPlanFlags, flagValues } from '../../../src/cli/config-flags.ts';
import { durationMs, timeoutOption } from '../../../src/cli/flags.ts';
import { loadConfig } from '../../../src/config/load.ts';

function settings(...args: string[]) {
  const command = addPlanFlags(new Command())
    .exitOverride()
    .configureOutput({ writeErr: () => undefined });
  command.parse(['--hostname-override', 'N1 ', ...args], { from: 'user' });
  return loadConfig(flagValues(command)).config.plan;
}

describe('commands that build a plan take the flags of run, and mean the same by them', () => {
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

  test('every setting of the plan has its flag', () => {
    const all = settings(
      ...[
        '--cluster-cidr',
        '10.1.0.0/16, fd00:10::/56',
        '--nodeport-addresses',
        'primary,10.0.0.0/8',
      ],
      ...['--detect-local-mode', 'InterfaceNamePrefix', '--pod-interface-name-prefix', 'veth'],
      ...['--pod-bridge-interface', 'br0', '--bind-address', '192.0.2.1'],
      ...['--masquerade-all', '--no-external-ips', '--algorithm', 'source-hash'],
      ...['--forwarding', 'hybrid'],
      ...['--external-algorithm', 'maglev'],
    );
    expect(all).toEqual({
      nodeName: 'n1',
      detectLocalMode: 'InterfaceNamePrefix',
      clusterCidrs: ['10.1.0.0/16', 'fd00:10::/56'],
      podBridgeInterface: 'br0',
      podInterfaceNamePrefix: 'veth',
      masqueradeAll: true,
      nodePortAddresses: ['primary', '10.0.0.0/8'],
      bindAddress: '192.0.2.1',
      allowExternalIps: false,
      algorithm: 'source-hash',
      forwarding: 'hybrid',
      externalAlgorithm: 'maglev',
    });
  });

  test('an unspecified bind address counts as none', () => {
    expect(settings('--bind-address', '::')).not.toHaveProperty('bindAddress');
  });

  const refused: readonly (readonly [args: string[], says: RegExp])[] = [
    [['--cluster-cidr', '10.1.0.0'], /--cluster-cidr: must be CIDRs/],
    [['--bind-address', 'here'], /--bind-address: must be an IP address/],
    [['--detect-local-mode', 'Guess'], /--detect-local-mode: must be .*ClusterCIDR/],
    [['--detect-local-mode', 'InterfaceNamePrefix'], /--pod-interface-name-prefix: must be set/],
    [['--hostname-override', ' '], /--hostname-override: must not be empty/],
  ];
  test.each(refused)('%j is rejected', (args, says) => {
    expect(() => settings(...args)).toThrow(says);
  });
});

test('durations have units, or are seconds', () => {
  const texts = ['250ms', '1.5s', '1m30s', '10m', '1h', '30', '0.5'];
  expect(texts.map(durationMs)).toEqual([250, 1_500, 90_000, 600_000, 3_600_000, 30_000, 500]);
  for (const bad of ['', '0', '0s', '-1s', '-5', '1d', '1e3'])
    expect(() => durationMs(bad)).toThrow(`"${bad}" is not a duration`);
});

test('help says the time that is waited by default as one would give it', () => {
  const command = new Command().addOption(timeoutOption('maximum time', '5m'));
  expect(command.helpInformation()).toContain('maximum time (default: 5m)');
  expect(command.opts()).toEqual({ timeout: 300_000 });
});
