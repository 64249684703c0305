// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterAll, describe, expect, test } from 'vitest';
import { addPlanFlags, flagValues } from '../../../src/cli/config-flags.ts';
import {
  addBpfRootOption,
  addRunDirOption,
  durationMs,
  timeoutOption,
} from '../../../src/cli/flags.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { writeInstance } from '../../../src/server/instance-file.ts';

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

describe('--bpf-root beside --run-dir', () => {
  const runDir = mkdtempSync(join(tmpdir(), 'instance-'));
  afterAll(() => rmSync(runDir, { recursive: true }));

  async function bpfRootOf(args: readonly string[], asksFirst = false): Promise<unknown> {
    let found: unknown;
    const command = addBpfRootOption(addRunDirOption(new Command('x')), { asksFirst }).action(
      ({ bpfRoot }) => {
        found = bpfRoot;
      },
    );
    await command.parseAsync([...args], { from: 'user' });
    return found;
  }

  test('is that of the agent that has run there, unless it is named', async () => {
    writeInstance(runDir, '/sys/fs/bpf/mine');
    expect(await bpfRootOf(['--run-dir', runDir])).toBe('/sys/fs/bpf/mine');
    expect(await bpfRootOf(['--run-dir', runDir, '--bpf-root', '/b'])).toBe('/b');
  });

  test('where no agent has started it says so, and a command that asks an agent goes on', async () => {
    const nowhere = join(runDir, 'nowhere');
    await expect(bpfRootOf(['--run-dir', nowhere])).rejects.toThrow(
      `no agent has started with --run-dir ${nowhere}: name the --run-dir of one that has, or its --bpf-root`,
    );
    expect(await bpfRootOf(['--run-dir', nowhere], true)).toBe('/sys/fs/bpf/fairlead');
    writeFileSync(join(runDir, 'instance.json'), '{"bpfRoot": 5');
    await expect(bpfRootOf(['--run-dir', runDir])).rejects.toThrow('no agent has started');
  });
});
