// SPDX-License-Identifier: Apache-2.0
// The agent on iptables alone: real sockets of a pod and of the node reach Services, with either of the two lists of rules
// that Linux has; what others remove comes back, and what others have written stays.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { type Agent, ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { startClient } from '../../../../tools/lab/traffic.ts';
import { service, target } from '../../../support/builders.ts';
import { routeServices } from '../../../support/iptables/routed-node.ts';
import { startOneNode } from '../../../support/node.ts';
import { AT_ONCE_MS, until } from '../../../support/until.ts';

const web = { n: 10, nodePort: 30_080 };
const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;
/** Rules that somebody else has, and that make the choice of the variant: more here than there. */
const OTHERS = ['-A INPUT -s 198.51.100.1/32 -j ACCEPT', '-A FORWARD -s 198.51.100.2/32 -j ACCEPT'];
/** Reading the rules takes a twentieth of the time at most, on a busy machine more than a second. */
const RESTORED_MS = 60_000;
/** Before all others of its chain it would end their work for this source. */
const FOREIGN = ['-s', '198.51.100.3/32', '-j', 'RETURN'];
const FLAGS = [
  '--engine',
  'iptables',
  '--iptables-sync-period',
  '1s',
  '--iptables-min-sync-period',
  '100ms',
];

describe.each(['nft', 'legacy'] as const)('iptables-%s', (variant) => {
  let node: Awaited<ReturnType<typeof startOneNode>>;
  let agent: Agent;

  const inNode = (...argv: readonly string[]): Promise<RunResult> => {
    const [program = '', ...args] = insideSandbox(node.self, argv);
    return run(program, args);
  };
  const saved = async (): Promise<string> => (await inNode(`iptables-${variant}-save`)).stdout;
  const ofOthers = (text: string): readonly string[] =>
    text.split('\n').filter((line) => line.startsWith('-A') && !line.includes('KUBE-'));

  beforeAll(async () => {
    node = await startOneNode(['web-1', 'web-2']);
    await routeServices(node);
    for (const rule of OTHERS) {
      const { code, stderr } = await inNode(`iptables-${variant}`, '-w', '5', ...rule.split(' '));
      if (code !== 0) throw new Error(stderr);
    }
  });
  afterAll(() => node?.remove());
  beforeEach(async () => {
    node.manifests.put('web.yaml', service('web', web, node.servers));
    node.manifests.put('dns.yaml', service('dns', dns, node.servers));
    agent = await node.startAgent(FLAGS);
  });
  afterEach(async () => {
    await agent.stop();
  });

  test('ClusterIPs and NodePorts of both families answer a pod and the node', async () => {
    for (const kind of ['IPv4', 'IPv6'] as const) {
      const tcp = await node.client().burst(target(web, kind), { connections: 60 });
      expect([kind, Object.keys(tcp.hits).sort(), tcp.failures]).toEqual([
        kind,
        ['web-1', 'web-2'],
        {},
      ]);
      const udp = await node.client().burst(target(dns, kind), { connections: 60 });
      expect([kind, Object.keys(udp.hits).sort(), udp.failures]).toEqual([
        kind,
        ['web-1', 'web-2'],
        {},
      ]);
    }
    const self = await startClient(node.self);
    for (const [client, address] of [
      [node.client(), '10.1.1.1'],
      [node.client(), 'fd00:10:1::1'],
      [self, '127.0.0.1'],
      [self, '10.96.0.10'],
    ] as const) {
      const port = address === '10.96.0.10' ? 80 : web.nodePort;
      const answer = await client.once({ protocol: 'TCP', address, port });
      expect([address, answer.kind]).toEqual([address, 'answered']);
    }
    expect(await node.status()).toMatchObject({
      dataplanes: ['iptables'],
      limitations: [
        { code: 'COUNTERS' },
        { code: 'BYPASS' },
        { code: 'AFFINITY_CLIENTS' },
        { code: 'ALGORITHMS' },
        { code: 'DIRECT_RETURN' },
      ],
    });
    expect((await node.status()).iptables).toMatchObject({ variant, families: ['IPv4', 'IPv6'] });
  });

  test('a Service without endpoints is refused, and serves again when it has one', async () => {
    node.manifests.put('web.yaml', service('web', web, []));
    await node.programmed();
    const { hits, failures } = await node.client().burst(target(web), { connections: 3 });
    expect({ hits, failures }).toEqual({ hits: {}, failures: { ECONNREFUSED: 3 } });
    node.manifests.put('web.yaml', service('web', web, node.pods('web-2')));
    await node.programmed();
    expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
  });

  test('the views show what is in the kernel', async () => {
    const { stdout } = await runCommand(node.instance, [
      'services',
      '-o',
      'json',
      '--run-dir',
      node.instance.runDir,
    ]);
    const rows = (JSON.parse(stdout) as { items: readonly Record<string, unknown>[] }).items;
    expect(rows.map(({ frontend, kernelState }) => [frontend, kernelState])).toEqual(
      expect.arrayContaining([
        ['10.96.0.10:80/TCP', 'ok'],
        ['*:30080/TCP', 'ok'],
        ['10.96.0.53:53/UDP', 'ok'],
      ]),
    );
    expect(rows.filter(({ kernelState }) => kernelState !== 'ok')).toEqual([]);
    expect(rows.filter((row) => 'connections' in row || 'refused' in row)).toEqual([]);
    const listed = await runCommand(node.instance, ['connections', ...ownPaths(node.instance)]);
    expect(listed).toMatchObject({ code: 4, stderr: expect.stringContaining('conntrack -L') });
  });

  test('rules that somebody flushes or deletes come back, and are reported', async () => {
    const whole = ofUs(await saved());
    if (variant === 'nft') await inNode('nft', 'flush', 'ruleset');
    else
      for (const table of ['mangle', 'filter', 'nat']) {
        await inNode('iptables-legacy', '-w', '5', '-t', table, '-F');
        await inNode('iptables-legacy', '-w', '5', '-t', table, '-X');
      }
    await until(async () => ofUs(await saved()).join() === whole.join(), {
      what: 'all rules again',
      timeoutMs: RESTORED_MS,
    });
    expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
    const drift = async (): Promise<number> => (await node.status()).sync.driftTotal;
    await until(async () => (await drift()) > 0, 'the report');
    const before = await drift();
    for (const rule of OTHERS) await inNode(`iptables-${variant}`, '-w', '5', ...rule.split(' '));
    await inNode(`iptables-${variant}`, '-w', '5', '-t', 'nat', '-D', 'PREROUTING', '1');
    const audited = await runCommand(node.instance, ['audit', '--run-dir', node.instance.runDir]);
    // Unless the agent has noticed it before it is asked.
    expect(audited.stdout).toMatch(
      /IPv4 nat PREROUTING: missing `-m comment --comment "kubernetes service portals" -j KUBE-SERVICES`|^in sync/,
    );
    await until(async () => (await drift()) > before, 'the report of the deleted rule');
    expect(ofUs(await saved())).toEqual(whole);
  });

  test.each([
    ['a rule that somebody deletes by hand comes back', 'delete'],
    ['a rule that somebody else puts into a chain of ours goes', 'insert'],
  ] as const)('%s within the sync period', async (_, change) => {
    const whole = ofUs(await saved());
    const chain = /^:(KUBE-SVC-\S+)/m.exec(await saved())?.[1] ?? '';
    const first = change === 'delete' ? 'PREROUTING' : 'KUBE-SERVICES';
    for (const where of [first, 'KUBE-POSTROUTING', chain]) {
      const rule = change === 'delete' ? ['-D', where, '1'] : ['-I', where, '1', ...FOREIGN];
      expect(await inNode(`iptables-${variant}`, '-w', '5', '-t', 'nat', ...rule)).toMatchObject({
        code: 0,
      });
      const wait = { what: where, timeoutMs: RESTORED_MS };
      await until(async () => ofUs(await saved()).join() === whole.join(), wait);
    }
  });

  test('a second agent is refused, and told who writes the rules', async () => {
    await expect(
      node.startAgent([...FLAGS, '--run-dir', `${node.instance.runDir}-2`]),
    ).rejects.toThrow(
      new RegExp(`written by another fairlead \\(agent with pid ${agent.child.pid}`),
    );
  });

  test('an agent of the other engine that takes back what it did leaves these rules', async () => {
    const before = ofUs(await saved());
    const { bpfRoot, runDir } = node.instance;
    const paths = ['--run-dir', `${runDir}-2`, '--bpf-root', `${bpfRoot}/second`];
    const engine = ['--engine', 'bpf', '--devices', 'none'];
    const other = await node.startAgent([...paths, ...engine, '--ephemeral']);
    await other.stop();
    expect(other.log.join('\n')).toContain('stopped and removed');
    expect(ofUs(await saved())).toEqual(before);
  });

  test('an agent that starts again changes nothing; cleanup leaves what others have', async () => {
    const before = ofUs(await saved());
    expect(await agent.stop()).toBe(0);
    expect(ofUs(await saved())).toEqual(before);
    expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
    agent = await node.startAgent(FLAGS);
    expect(ofUs(await saved())).toEqual(before);
    expect(agent.log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
    const startedMs = performance.now();
    expect(await agent.stop()).toBe(0);
    expect(performance.now() - startedMs).toBeLessThan(AT_ONCE_MS);
    const done = await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
    expect(done).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`of iptables-${variant}`),
    });
    const left = await saved();
    expect(left.replaceAll(/^[:-].*KUBE-FIREWALL.*$/gm, '')).not.toContain('KUBE-');
    expect(ofOthers(left)).toEqual(OTHERS);
  });
});

/** Sorted, because new chains are listed last. */
const ofUs = (text: string): readonly string[] =>
  text
    .split('\n')
    .filter((line) => line.includes('KUBE-'))
    .map((line) => line.replace(/\[\d+:\d+\]/, ''))
    .sort();
