// SPDX-License-Identifier: Apache-2.0
// `cleanup --drain` leaves fairlead serving until the rules of another proxy serve the same Services, in both families; those of a real
// kube-proxy are test/integration/cluster/switching/way-back.test.ts's.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { programmedBelow } from '../../../../src/instance/dataplanes.ts';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { clusterIps, service } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';

const web = { n: 10 };
const none = { n: 11 };
const PORTS = '-p tcp -m tcp --dport 80';
type Backends = Readonly<Record<'ipv4' | 'ipv6', string>>;

let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2']);
});
afterAll(() => node?.remove());
afterEach(async () => {
  await cleanup('--drain', '--wait-for-proxy', 'none');
  for (const tool of ['iptables-nft', 'ip6tables-nft']) {
    for (const table of ['filter', 'nat']) {
      await inNode([tool, '-t', table, '-F']);
      await inNode([tool, '-t', table, '-X']);
    }
  }
  await inNode(['nft', 'flush', 'ruleset']);
});

const cleanup = (...flags: readonly string[]): Promise<RunResult> =>
  runCommand(node.instance, ['cleanup', ...flags, ...ownPaths(node.instance)]);
const inNode = async (argv: readonly string[], stdin?: string): Promise<void> => {
  const [program = '', ...args] = insideSandbox(node.self, argv);
  const { code, stderr } = await run(program, args, stdin === undefined ? {} : { stdin });
  if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr}`);
};
const drained = (): Promise<RunResult> => cleanup('--drain', '--wait-for-proxy', '100ms');
/** Both addresses of both Services. */
const served = (): number => {
  try {
    return programmedBelow(node.instance.bpfRoot).frontends.length;
  } catch {
    return 0;
  }
};
/** An agent that has programmed two Services, one without endpoints, and ended. */
const startAndStop = async (...flags: readonly string[]): Promise<void> => {
  node.manifests.put('web.yaml', service('web', web, node.pods('web-1')));
  node.manifests.put('none.yaml', service('none', none, []));
  const agent = await node.startAgent(flags);
  await agent.stop();
};
const backendOf = (name: 'web-1' | 'web-2'): Backends => {
  const [{ ipv4, ipv6 }] = node.pods(name) as unknown as readonly [Backends];
  return { ipv4: `${ipv4}:8080`, ipv6: `[${ipv6}]:8080` };
};

/** In kube-proxy's layout. */
const rulesOf = (at: 'ipv4' | 'ipv6', backend: string): string => `*filter
:KUBE-SERVICES - [0:0]
-A KUBE-SERVICES -d ${clusterIps(none.n)[at]} ${PORTS} -m comment --comment "default/none:main has no endpoints" -j REJECT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
:KUBE-SEP-A - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d ${clusterIps(web.n)[at]} ${PORTS} -m comment --comment "default/web:main cluster IP" -j KUBE-SVC-A
-A KUBE-SVC-A -m comment --comment "default/web:main" -j KUBE-SEP-A
-A KUBE-SEP-A -p tcp -m comment --comment "default/web:main" -m tcp -j DNAT --to-destination ${backend}
COMMIT
`;
/** With session affinity; without, a single backend's rule is in the chain of the service port (Kubernetes 1.37). */
const tableOf = (at: 'ipv4' | 'ipv6', backend: string, isSticky = true): string => {
  const [family, type] = at === 'ipv4' ? ['ip', 'ipv4_addr'] : ['ip6', 'ipv6_addr'];
  const [, address, port] = /^\[?(.*?)\]?:(\d+)$/.exec(backend) ?? [];
  const named = address?.replaceAll(':', '.');
  const endpoint = `endpoint-QAUFJJ2A-default/web/tcp/main__${named}/${port}`;
  const dnat = `meta l4proto tcp dnat to ${backend}`;
  return `table ${family} kube-proxy {
  map no-endpoint-services {
    type ${type} . inet_proto . inet_service : verdict
    elements = { ${clusterIps(none.n)[at]} . tcp . 80 : drop }
  }
  chain ${endpoint} { ${dnat}; }
  chain service-SUSTUHLJ-default/web/tcp/main { ${isSticky ? `numgen random mod 1 vmap { 0 : goto ${endpoint} }` : dnat}; }
  map service-ips {
    type ${type} . inet_proto . inet_service : verdict
    elements = { ${clusterIps(web.n)[at]} . tcp . 80 : goto service-SUSTUHLJ-default/web/tcp/main }
  }
}
`;
};
const writeRules = async ({ ipv4, ipv6 }: Backends): Promise<void> => {
  await inNode(['iptables-nft-restore', '--noflush'], rulesOf('ipv4', ipv4));
  await inNode(['ip6tables-nft-restore', '--noflush'], rulesOf('ipv6', ipv6));
};
const writeTables = ({ ipv4, ipv6 }: Backends): Promise<void> =>
  inNode(['nft', '-f', '-'], `${tableOf('ipv4', ipv4)}${tableOf('ipv6', ipv6)}`);
const writeSingleTables = ({ ipv4, ipv6 }: Backends): Promise<void> =>
  inNode(['nft', '-f', '-'], `${tableOf('ipv4', ipv4, false)}${tableOf('ipv6', ipv6, false)}`);

test('without another proxy: exit code 124, and every Service is served on; then without waiting', async () => {
  await startAndStop();
  expect(served()).toBe(4);
  const result = await drained();
  expect(result.code).toBe(124);
  expect(result.stdout).toBe(
    [
      'waiting up to 100ms for another proxy to serve this node',
      'IPv4: no other proxy has rules for 2 addresses of Services; IPv6: no other proxy has rules for 2 addresses of Services',
      '',
    ].join('\n'),
  );
  expect(result.stderr).toMatch(
    /^fairlead: no other proxy serves this node after 100ms, so that .* stay and serve: IPv4: no .* --wait-for-proxy=none$/m,
  );
  expect(served()).toBe(4);
  const forced = await cleanup('--drain', '--wait-for-proxy=none');
  expect(forced).toMatchObject({ code: 0, stderr: '' });
  expect(forced.stdout).toMatch(/^bpf serves no new connections any more\nremoved /);
  expect(served()).toBe(0);
  // Nothing serves any more: nothing to wait for.
  expect(await drained()).toMatchObject({ code: 0, stderr: '' });
});

test.each([
  ['iptables-nft', 'as of kube-proxy', writeRules],
  ['nftables', 'with session affinity', writeTables],
  ['nftables', 'without', writeSingleTables],
] as const)('rules of %s, %s', async (where, _, write) => {
  await startAndStop();
  // As they were left, before the endpoint was replaced.
  await write(backendOf('web-2'));
  const early = await drained();
  expect(early.code).toBe(124);
  expect(early.stderr).toContain(
    `IPv4: ${where} has other endpoints for 1 (default/web 10.96.0.10:80/TCP); IPv6: ${where} has other endpoints for 1 (default/web [fd00:96::a]:80/TCP)`,
  );
  expect(served()).toBe(4);
  await inNode(['nft', 'flush', 'ruleset']);
  await write(backendOf('web-1'));
  const done = await drained();
  expect(done).toMatchObject({ code: 0, stderr: '' });
  expect(done.stdout).toMatch(
    new RegExp(
      `^IPv4: ${where} serves 2 addresses; IPv6: ${where} serves 2 addresses\\nbpf serves no new`,
    ),
  );
  expect(served()).toBe(0);
});

test('one family alone is not enough', async () => {
  await startAndStop();
  await inNode(['iptables-nft-restore', '--noflush'], rulesOf('ipv4', backendOf('web-1').ipv4));
  const { code, stderr } = await drained();
  expect(code).toBe(124);
  expect(stderr).toContain(
    'IPv4: iptables-nft serves 2 addresses; IPv6: no other proxy has rules for 2 addresses of Services',
  );
  expect(served()).toBe(4);
});

test('fairlead’s own rules are not another proxy; kube-proxy’s table beside them is', async () => {
  await startAndStop('--engine', 'iptables');
  const early = await drained();
  expect(early.code).toBe(124);
  expect(early.stderr).toContain('IPv4: no other proxy has rules for 2 addresses of Services');
  await writeTables(backendOf('web-1'));
  const done = await drained();
  expect(done.stdout).toContain('iptables serves no new connections any more');
  expect(done).toMatchObject({ code: 0, stderr: '' });
});

test('a dry run of --drain says what would end, waits for nothing and changes nothing', async () => {
  await startAndStop();
  expect(await cleanup('--drain', '--dry-run')).toMatchObject({
    code: 0,
    stdout: 'bpf would begin no connections any more, and keep those that it has\n',
  });
  expect(served()).toBe(4);
});

test('--wait-for-proxy is a duration or none, and goes with --drain', async () => {
  expect(await cleanup('--drain', '--wait-for-proxy', '0')).toMatchObject({ code: 2 });
  expect(await cleanup('--wait-for-proxy', '1m')).toMatchObject({
    code: 2,
    stderr: 'fairlead: --wait-for-proxy goes with --drain only\n',
  });
});
