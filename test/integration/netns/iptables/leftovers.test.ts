// SPDX-License-Identifier: Apache-2.0
// What an agent has written before is not in the way of the next one, and `cleanup` leaves nothing of it: after a change of
// the iptables that the node uses, and whatever others have flushed.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { type Agent, ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { NOBODY, readableMain } from '../../../support/programs/nobody.ts';
import { until } from '../../../support/until.ts';

const web = { n: 10 };
const FLAGS = ['--engine', 'iptables', '--iptables-min-sync-period', '50ms'];
const PATH = process.env['PATH'] ?? '';

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;
const folder = mkdtempSync(join(tmpdir(), 'tools-'));

const inNode = async (line: string): Promise<RunResult> => {
  const [program = '', ...args] = insideSandbox(node.self, ['sh', '-c', line]);
  const result = await run(program, args);
  if (result.code !== 0) throw new Error(`${line}: ${result.stderr}`);
  return result;
};
/** Our chains and jumps in both families. */
const left = async (variant: string): Promise<readonly string[]> => {
  const { stdout } = await inNode(`iptables-${variant}-save; ip6tables-${variant}-save`);
  return stdout.split('\n').filter((line) => /^[:-].*KUBE-(?!IPTABLES-HINT)/.test(line));
};
const status = async (): Promise<string> =>
  (await runCommand(node.instance, ['status', '--run-dir', node.instance.runDir])).stdout;
const cleanup = (): Promise<RunResult> =>
  runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2']);
});
afterAll(() => {
  process.env['PATH'] = PATH;
  rmSync(folder, { recursive: true });
  node?.remove();
});

test('the node changes from iptables-nft to iptables-legacy: only the new rules serve', async () => {
  node.manifests.put('web.yaml', service('web', web, node.pods('web-1')));
  agent = await node.startAgent(FLAGS);
  await agent.stop();
  expect((await left('nft')).length).toBeGreaterThan(0);
  await inNode('iptables-legacy -w 30 -t mangle -N KUBE-IPTABLES-HINT');
  node.manifests.put('web.yaml', service('web', web, node.pods('web-2')));
  // First without being able to remove the old ones.
  mkdirSync(join(folder, 'broken'));
  const broken = join(folder, 'broken/iptables-nft-restore');
  writeFileSync(broken, '#!/bin/sh\necho no >&2\nexit 1\n', { mode: 0o755 });
  process.env['PATH'] = `${join(folder, 'broken')}:${PATH}`;
  agent = await node.startAgent(FLAGS);
  expect((await node.status()).iptables?.variant).toBe('legacy');
  await until(async () => (await status()).includes('degraded'), 'the report');
  expect(await status()).toMatch(
    /Failed: +rules of an earlier agent in iptables-nft: they may still serve, and cannot be removed: iptables-nft-restore failed: no/,
  );
  rmSync(broken);
  await runCommand(node.instance, ['audit', '--run-dir', node.instance.runDir]);
  expect(await left('nft')).toEqual([]);
  const { ipv4 } = node.pods('web-2')[0]!;
  expect((await left('legacy')).join('\n')).toContain(`--to-destination ${ipv4}:`);
  await until(async () => (await status()).includes('in sync'), 'in sync');
  await agent.stop();
});

const openMain = readableMain();

test.each(['cleanup', 'cleanup --dry-run', 'cleanup --kube-proxy --dry-run'])(
  '%s by somebody who may not list rules: refused, and not nothing to remove',
  async (line) => {
    const args = [...line.split(' '), ...ownPaths(node.instance)];
    const unprivileged = { ...node.instance, wrapper: NOBODY, program: openMain };
    const result = await runCommand(unprivileged, args);
    expect(result).toMatchObject({ code: 5, stdout: '' });
    expect(result.stderr).toMatch(
      /^fairlead: this process lacks CAP_NET_ADMIN, .*: run it as root$/m,
    );
    expect((await left('legacy')).length).toBeGreaterThan(0);
  },
);

test('cleanup knows its rules after others have flushed filter', async () => {
  for (const program of ['iptables-legacy', 'ip6tables-legacy']) {
    await inNode(`${program} -w 5 -F && ${program} -w 5 -X`);
  }
  expect((await left('legacy')).join('\n')).toContain('KUBE-SERVICES');
  expect(await cleanup()).toMatchObject({ code: 0 });
  expect(await left('legacy')).toEqual([]);
});

test('the guard of loopback addresses stays as long as they are routed', async () => {
  await inNode('iptables-legacy -w 30 -t mangle -X KUBE-IPTABLES-HINT');
  agent = await node.startAgent(FLAGS);
  await agent.stop();
  expect((await cleanup()).stdout).toMatch(
    /^kept filter KUBE-FIREWALL of iptables-nft: net.ipv4.conf.all.route_localnet is 1, .*: set it to 0 and run this again$/m,
  );
  expect((await left('nft')).filter((line) => !line.includes('KUBE-FIREWALL'))).toEqual([]);
  await inNode('echo 0 >/proc/sys/net/ipv4/conf/all/route_localnet');
  expect((await cleanup()).stdout).toContain('removed 1 chains and 2 jumps');
  expect(await left('nft')).toEqual([]);
});
