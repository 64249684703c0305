// SPDX-License-Identifier: Apache-2.0
// A node on which kube-proxy ran in mode nftables: its table stays when it ends. The agent on nftables serves beside that
// table, `cleanup --kube-proxy` removes it, and connections that it has translated live. The text is what kube-proxy 1.37
// writes; with a real one: test/integration/cluster/leftovers.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, target } from '../../../support/builders.ts';
import { routeServices } from '../../../support/iptables/routed-node.ts';
import { startOneNode } from '../../../support/node.ts';

const web = { n: 10, nodePort: 30_080 };
/** kube-proxy knows it, fairlead does not. */
const gone = { n: 11 };
const FLAGS = ['--engine', 'nftables'];

let node: Awaited<ReturnType<typeof startOneNode>>;

const inNode = async (argv: readonly string[], stdin = ''): Promise<RunResult> => {
  const [program = '', ...args] = insideSandbox(node.self, argv);
  return run(program, args, { stdin });
};
const tables = async (): Promise<readonly string[]> =>
  (await inNode(['nft', 'list', 'tables'])).stdout.trim().split('\n').sort();
const visited = async (): Promise<readonly string[]> => {
  const { hits, failures } = await node.client().burst(target(web), { connections: 20 });
  return [...Object.keys(hits), ...Object.keys(failures)].sort();
};
const cleanup = (...flags: readonly string[]): Promise<RunResult> =>
  runCommand(node.instance, ['cleanup', ...flags]);

/** Its web has the endpoint web-1. */
const tableOf = (backend: string): string => `table ip kube-proxy {
  comment "rules for kube-proxy"
  set cluster-ips { type ipv4_addr; comment "Active ClusterIPs"; elements = { 10.96.0.10, 10.96.0.11 } }
  set nodeport-ips { type ipv4_addr; comment "IPs that accept NodePort traffic"; elements = { 10.1.1.1 } }
  set hairpin-connections {
    type ipv4_addr . ipv4_addr . inet_proto . inet_service; comment "service hairpin connections"
    elements = { ${backend} . ${backend} . tcp . 8080 }
  }
  map firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict; comment "destinations that are subject to LoadBalancerSourceRanges"; }
  map no-endpoint-nodeports { type inet_proto . inet_service : verdict; comment "vmap to drop or reject packets to service nodeports with no endpoints"; }
  map no-endpoint-services {
    type ipv4_addr . inet_proto . inet_service : verdict; comment "vmap to drop or reject packets to services with no endpoints"
    elements = { 10.96.0.11 . tcp . 80 comment "default/gone:main" : goto reject-chain }
  }
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict; comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"
    elements = { 10.96.0.10 . tcp . 80 : goto service-ULMVA6XW-default/web/tcp/main }
  }
  map service-nodeports {
    type inet_proto . inet_service : verdict; comment "NodePort traffic"
    elements = { tcp . 30080 : goto external-ULMVA6XW-default/web/tcp/main }
  }
  chain cluster-ips-check {
    ip daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"
    ip daddr { 10.96.0.0/16 } drop comment "Drop traffic to unallocated ClusterIPs"
  }
  chain filter-prerouting-pre-dnat { type filter hook prerouting priority -110; ct state new jump firewall-check; }
  chain filter-output-pre-dnat { type filter hook output priority -110; ct state new jump firewall-check; }
  chain filter-forward {
    type filter hook forward priority 0
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
  }
  chain filter-input {
    type filter hook input priority 0
    ct state new jump nodeport-endpoints-check
    ct state new jump service-endpoints-check
  }
  chain filter-output {
    type filter hook output priority 0
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
  }
  chain firewall-check { ip daddr . meta l4proto . th dport vmap @firewall-ips; }
  chain masquerading {
    mark and 0x4000 != 0 mark set mark xor 0x4000 masquerade fully-random
    ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
  }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority 100; jump masquerading; }
  chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
  chain nodeport-endpoints-check { ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports; }
  chain reject-chain { comment "helper for @no-endpoint-services / @no-endpoint-nodeports"; reject; }
  chain services {
    ip daddr @cluster-ips ip saddr != 10.1.0.0/16 mark set mark or 0x4000 comment "masquerade clusterIP traffic from outside cluster"
    ip daddr . meta l4proto . th dport vmap @service-ips
    ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
  }
  chain service-endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
  chain service-ULMVA6XW-default/web/tcp/main { meta l4proto tcp dnat to ${backend}:8080; }
  chain external-ULMVA6XW-default/web/tcp/main {
    mark set mark or 0x4000 comment "masquerade"
    goto service-ULMVA6XW-default/web/tcp/main
  }
}
`;

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2']);
  await routeServices(node);
});
afterAll(() => node?.remove());
const load = async (): Promise<void> => {
  const [{ ipv4 }] = node.pods('web-1') as unknown as readonly [{ readonly ipv4: string }];
  const loaded = await inNode(['nft', '-f', '-'], tableOf(ipv4));
  expect(loaded).toMatchObject({ code: 0, stderr: '' });
};

beforeEach(async () => {
  await load();
  expect(await visited()).toEqual(['web-1']);
  node.manifests.put('web.yaml', service('web', web, node.pods('web-2')));
});
afterEach(async () => {
  await cleanup(...ownPaths(node.instance));
  await inNode(['nft', 'flush', 'ruleset']);
});

test('its table is reported, serves nothing new, and goes; a connection lives', async () => {
  const stream = await node.client().open(target(web));
  expect(await stream.talk('x')).toMatchObject({ kind: 'answered' });
  const agent = await node.startAgent(FLAGS);
  try {
    await node.programmed();
    expect(await visited()).toEqual(['web-2']);
    // What it rejects and drops goes on, until it is removed.
    expect(await node.client().once(target(gone))).toMatchObject({ code: 'ECONNREFUSED' });
    const status = await runCommand(node.instance, ['status', '--run-dir', node.instance.runDir]);
    expect(status.stdout).toMatch(
      /^Warning: +kube-proxy has left 1 table: list them with `fairlead cleanup --kube-proxy/m,
    );

    // Rules of Services, of kube-proxy or fairlead's own, are no other program's.
    expect(status.stdout).not.toContain('BREAKS SERVICES');

    const done = await cleanup('--kube-proxy');
    expect(done).toMatchObject({ code: 0, stdout: 'removed 1 table\n', stderr: '' });
    expect(await tables()).toEqual(['table ip fairlead', 'table ip6 fairlead']);
    expect(await stream.talk('x')).toMatchObject({ kind: 'answered' });
    expect(await visited()).toEqual(['web-2']);
  } finally {
    await agent.stop();
    await stream.close();
  }
});

test('of two tables the one that was made last translates', async () => {
  const agent = await node.startAgent(FLAGS);
  await node.programmed();
  expect(await visited()).toEqual(['web-2']);
  await inNode(['nft', 'delete', 'table', 'ip', 'kube-proxy']);
  await load();
  expect(await visited()).toEqual(['web-1']);
  await agent.stop();
});

test('on the way back fairlead’s table goes, and kube-proxy’s serves; a connection lives', async () => {
  const agent = await node.startAgent(FLAGS);
  await node.programmed();
  const stream = await node.client().open(target(web));
  await agent.stop();
  expect(await cleanup(...ownPaths(node.instance))).toMatchObject({ code: 0, stderr: '' });
  expect(await tables()).toEqual(['table ip kube-proxy']);
  expect(await visited()).toEqual(['web-1']);
  expect(await stream.talk('x')).toMatchObject({ kind: 'answered' });
  await stream.close();
});
