// SPDX-License-Identifier: Apache-2.0
// What the container of deploy/kustomize/base has is what it needs: without each part it says in one line what is missing
// and what to do, and exits as documented, or serves all the same and says what it cannot do.
import { chmodSync, existsSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startClient } from '../../../tools/lab/traffic.ts';
import { askAgent } from '../../support/fixture/proxies/ask-agent.ts';
import { untilHolds } from '../../support/until.ts';
import type { Without } from './agent.ts';
import { type AgentNode, complaints, startAgentNode } from './agent-node.ts';
import { prepareRunnable } from './image.ts';

const RUN = ['run', '--manifests', '/manifests', '--hostname-override', 'n1'];
const LACKS = 'run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON';
const NO_BPFFS =
  'no bpf file system is mounted at /sys/fs/bpf, and this process may not mount one: run `mount -t bpf bpf /sys/fs/bpf` on the node, and mount that folder into the container';
const built = await prepareRunnable();

describe.skipIf(!built.isReady)('the least privileges', () => {
  let node: AgentNode;

  beforeAll(async () => {
    if (built.isReady) node = await startAgentNode(built.image);
  });
  afterEach(() => node?.end());
  afterAll(() => node?.remove());

  const serves = (): Promise<void> =>
    untilHolds(async () => expect(await node.answers()).toEqual({ 'web-1': 5 }));

  const bpf = [...RUN, '--engine', 'bpf'];
  test.each<readonly [string, Without, number, string]>([
    ['BPF', { capability: 'BPF' }, 5, `this process lacks CAP_BPF: ${LACKS}`],
    ['NET_ADMIN', { capability: 'NET_ADMIN' }, 5, `this process lacks CAP_NET_ADMIN: ${LACKS}`],
    ['PERFMON', { capability: 'PERFMON' }, 5, `this process lacks CAP_PERFMON: ${LACKS}`],
    ['/sys/fs/bpf', { mount: '/sys/fs/bpf' }, 5, NO_BPFFS],
    [
      '/host/sys/fs/cgroup',
      { mount: '/host/sys/fs/cgroup' },
      5,
      'no cgroup v2 hierarchy is mounted',
    ],
    ['/run/fairlead', { mount: '/run/fairlead' }, 2, '--run-dir /run/fairlead cannot be used: '],
  ])('--engine bpf without %s: one line says what to do', async (_part, without, code, line) => {
    const agent = await node.start({ ...without, args: bpf });
    expect(await agent.exited).toBe(code);
    expect(complaints(agent)).toEqual([expect.stringContaining(`fairlead: ${line}`)]);
  });

  test.each<readonly [string, Without, string]>([
    ['BPF', { capability: 'BPF' }, `this process lacks CAP_BPF: ${LACKS}`],
    ['PERFMON', { capability: 'PERFMON' }, `this process lacks CAP_PERFMON: ${LACKS}`],
    ['/host/sys/fs/cgroup', { mount: '/host/sys/fs/cgroup' }, 'no cgroup v2 hierarchy is mounted'],
  ])(
    '--engine auto without %s: nftables serves, and one warning says why',
    async (_part, without, reason) => {
      const agent = await node.start(without);
      await agent.said('"msg":"ready"');
      await serves();
      const [warning, ...more] = complaints(agent).map((line) => JSON.parse(line));
      expect(warning).toMatchObject({
        msg: 'eBPF cannot serve all of this node, nftables does',
        reason: expect.stringContaining(reason),
      });
      expect(more).toEqual([]);
    },
  );

  test('--engine iptables needs NET_ADMIN, and NET_RAW for iptables-legacy', async () => {
    const args = [...RUN, '--engine', 'iptables'];
    const without = await node.start({ args, capability: 'NET_ADMIN' });
    expect(await without.exited).toBe(5);
    expect(complaints(without)).toEqual([
      expect.stringMatching(/^fairlead: no iptables works on this node: .*Permission denied/),
    ]);
    const legacy = { command: ['iptables-legacy', '--list-rules'], args: [] };
    const all = await node.start(legacy);
    expect([await all.exited, all.log.at(-1)]).toEqual([0, '-P OUTPUT ACCEPT']);
    const raw = await node.start({ ...legacy, capability: 'NET_RAW' });
    expect([await raw.exited, raw.log.join()]).toEqual([3, expect.stringContaining('ermission')]);
  });

  test('--engine nftables needs NET_ADMIN alone', async () => {
    const args = [...RUN, '--engine', 'nftables'];
    const without = await node.start({ args, capabilities: [] });
    expect(await without.exited).toBe(5);
    const agent = await node.start({ args, capabilities: ['NET_ADMIN'] });
    await agent.said('"msg":"ready"');
    await serves();
    const { stdout } = await agent.exec('nft', 'list', 'tables');
    expect(stdout).toMatch(/^table ip fairlead$/m);
    expect(complaints(agent)).toEqual([]);
  });

  test('--engine userspace needs no capability, and is not root', async () => {
    const args = [...RUN, '--engine', 'userspace'];
    const runDir = mkdtempSync(join(node.root, 'run-'));
    chmodSync(runDir, 0o777);
    const agent = await node.start({
      ...{ args, capabilities: [], user: 65_534, mount: '/sys/fs/bpf' },
      instead: { '/run/fairlead': runDir },
    });
    await agent.said('"msg":"ready"');
    const { stdout } = await agent.exec('cat', '/proc/1/status');
    expect(stdout).toMatch(/^Uid:\s*65534\s/m);
    expect(stdout).toMatch(/^Cap(?:Prm|Eff):\s*0+$/m);
    const rows = (await askAgent(runDir, '/v1/services')) as readonly { reachedAt?: string }[];
    const mapped = rows.find(({ reachedAt }) => reachedAt?.startsWith('127.'))?.reachedAt;
    const [host = '', port] = mapped?.split(':') ?? [];
    const client = await startClient(node.node.self);
    try {
      const location = { protocol: 'TCP', address: host, port: Number(port) } as const;
      const { hits, failures } = await client.burst(location, { connections: 5 });
      expect([hits, failures]).toEqual([{ 'web-1': 5 }, {}]);
    } finally {
      await client.stop();
    }
    expect(complaints(agent)).toEqual([]);
  });

  test('with all of it, both engines serve', async () => {
    const byBpf = await node.start({ args: bpf });
    await byBpf.said('"msg":"ready"');
    await serves();
    expect(complaints(byBpf)).toEqual([]);
    await byBpf.signal('TERM');
    expect(await byBpf.exited).toBe(0);
    const byRules = await node.start({ args: [...RUN, '--engine', 'iptables'] });
    await byRules.said('"msg":"ready"');
    // eBPF is removed: what answers is rules.
    await untilHolds(async () => {
      expect((await byRules.exec('fairlead', 'status')).stdout).toMatch(/Health: +in sync/);
      expect(existsSync(join(node.root, 'sys/fs/bpf/fairlead'))).toBe(false);
    });
    await serves();
    expect(complaints(byRules)).toEqual([]);
  });
});
