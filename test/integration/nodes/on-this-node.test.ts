// SPDX-License-Identifier: Apache-2.0
// What else is on a node is said: in `status`, `probe`, `explain`, the log, an Event and the metric, while it is there and no longer. kube-proxy
// says nothing of it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Status } from '../../../src/observe/status.ts';
import type { Finding, Topic } from '../../../src/on-node/finding.ts';
import type { ProbeReport } from '../../../src/probe/report.ts';
import { compiledPath } from '../../../tools/lab/sandbox.ts';
import { fairleadPaths } from '../../support/fixture/proxies/fairlead.ts';
import { type OtherNode, onEachProxy } from '../../support/nodes/other-node.ts';
import { evaluateAlerts, preparePromql } from '../../support/programs/promql.ts';
import { AT_ONCE_MS, untilHolds } from '../../support/until.ts';

const promql = await preparePromql();
const ROOT = new URL('../../..', import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), 'fairlead-cni-'));
const FLAGS = ['--cni-conf-dir', join(folder, 'net.d')];
afterAll(() => rmSync(folder, { recursive: true }));

/** Whatever its exit code. */
const command = (node: OtherNode, ...args: readonly string[]): Promise<string> =>
  node.run('n1', [
    ...['sh', '-c', '"$@" || true', 'sh'],
    ...[process.execPath, compiledPath('main.js'), ...args],
  ]);
const ofAgent = (node: OtherNode): readonly string[] => [
  ...['--run-dir', fairleadPaths(node.stage().cluster, 'n1').runDir],
];
const findings = async (node: OtherNode): Promise<readonly Finding[]> => {
  return (
    (JSON.parse(await command(node, 'status', '-o', 'json', ...ofAgent(node))) as Status)
      .onThisNode ?? []
  );
};
const said = async (node: OtherNode, topic: Topic): Promise<readonly string[]> =>
  (await findings(node)).filter((one) => one.topic === topic).map(({ what }) => what);
/** The section of `status` has a line with this topic and text, or none. */
const says = (node: OtherNode, topic: Topic, ...texts: readonly string[]): Promise<void> =>
  untilHolds(
    async () =>
      expect(await said(node, topic)).toEqual(texts.map((text) => expect.stringContaining(text))),
    AT_ONCE_MS,
  );
const metrics = (node: OtherNode): Promise<string> =>
  node.run('n1', [
    process.execPath,
    '-e',
    "fetch('http://127.0.0.1:10249/metrics').then((r) => r.text()).then((t) => process.stdout.write(t))",
  ]);
const counted = (node: OtherNode, topic: Topic, breaks: boolean, value: number): Promise<void> =>
  untilHolds(async () =>
    expect(await metrics(node)).toContain(
      `fairlead_node_findings{topic="${topic}",breaks="${breaks}"} ${value}\n`,
    ),
  );
/** Runs a script with the addon in the namespace of n1. What it attaches must outlive it. */
const attach = (node: OtherNode, script: string): Promise<string> =>
  node.run('n1', [
    process.execPath,
    '-e',
    `const native = require('${ROOT}build/native/fairlead.node');
     const open = (path) => {
       const object = native.openObject(require('node:fs').readFileSync('${ROOT}' + path));
       object.load();
       return object;
     };
     ${script}`,
  ]);
const ip = (node: OtherNode, line: string): Promise<void> => node.stage().ip('n1', [line]);

onEachProxy('on-this-node', { flags: FLAGS, proxies: ['eBPF', 'rules'] }, (node) => {
  beforeAll(() => node.serve(['node-port', 'a']));

  test('a node with nothing on it: where its CNI has its files is not visible', async () => {
    await says(node, 'cni', `${folder}/net.d is not visible`);
    expect((await findings(node)).some(({ breaksServices }) => breaksServices)).toBe(false);
    await counted(node, 'cni', false, 1);
    await counted(node, 'cni', true, 0);
  });

  test('the files of the CNI, with a mesh, and a file that is broken', async () => {
    const files = join(folder, 'net.d');
    mkdirSync(files);
    writeFileSync(join(files, '00.conf'), '{');
    const plugins = [{ type: 'ptp' }, { type: 'linkerd-cni' }];
    writeFileSync(join(files, '10.conflist'), JSON.stringify({ name: 'n', plugins }));
    await says(node, 'cni', '00.conf: ', '10.conflist: ptp, linkerd-cni');
    await says(node, 'mesh', 'linkerd-cni (Linkerd)');
    await counted(node, 'mesh', false, 1);
    rmSync(files, { recursive: true });
    await says(node, 'mesh');
    await counted(node, 'mesh', false, 0);
  });

  test('rules of policy routing and their marks, and those of netfilter', async () => {
    await ip(node, 'rule add fwmark 0x80/0x80 lookup 7 pref 1024');
    await ip(node, 'rule add not from 10.1.1.0/24 to 10.9.0.0/16 iif eth0 lookup 8 pref 1025');
    await says(
      node,
      'policy-routing',
      'IPv4: ip rule has 1024: from all fwmark 0x80/0x80 lookup 7, 1025: not from 10.1.1.0/24 to 10.9.0.0/16 iif eth0 lookup 8',
    );
    await node.rules('n1', 'iptables-nft', [
      '*mangle',
      '-A PREROUTING -i eth0 -j CONNMARK --set-xmark 0x80/0x80',
      '-A PREROUTING -j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80',
      '-A FORWARD -j MARK --set-xmark 0x10000/0x10000',
      'COMMIT',
    ]);
    await node.nft(
      'n1',
      'add table inet o; add chain inet o c; add rule inet o c meta mark set 0x77',
    );
    await says(
      node,
      'marks',
      'IPv4 ip rule 1024: from all fwmark 0x80/0x80 lookup 7, CONNMARK 0x80/0x80 in ip mangle PREROUTING, CONNMARK restore 0x0/0x80 in ip mangle PREROUTING, MARK 0x10000/0x10000 in ip mangle FORWARD, and 1 more',
    );
    await node.run('n1', ['iptables-nft', '-t', 'mangle', '-F', 'PREROUTING']);
    await node.run('n1', ['iptables-nft', '-t', 'mangle', '-F', 'FORWARD']);
    await says(node, 'marks', 'lookup 7, meta mark 0x77 in inet o c');
    await node.nft('n1', 'delete table inet o');
    await ip(node, 'rule del pref 1024');
    await ip(node, 'rule del pref 1025');
    await says(node, 'marks');
    await says(node, 'policy-routing');
  });

  test('an address of the node that is a ClusterIP', async () => {
    await ip(node, 'addr add 10.96.0.10/32 dev lo');
    await says(node, 'dns-cache', 'lo has 10.96.0.10, the ClusterIP of default/web');
    await counted(node, 'dns-cache', false, 1);
    await ip(node, 'addr del 10.96.0.10/32 dev lo');
    await says(node, 'dns-cache');
  });

  test('what breaks Services: line, log, Event, metric, alert, explain; and all of it ends', async () => {
    await ip(node, 'link add second type veth peer name second-peer');
    await ip(node, 'addr add 198.51.100.1/24 dev second');
    await ip(node, 'link set second up');
    await ip(node, 'rule add from 10.1.1.5 lookup 7');
    await node.run('n1', ['sysctl', '-qw', 'net.ipv4.conf.second.rp_filter=1']);
    const what = 'rp_filter is strict (1) on second';
    await says(node, 'rp-filter', what);
    expect(await command(node, 'status', ...ofAgent(node))).toContain(
      `\n\nOn this node:\n  BREAKS SERVICES rp-filter: ${what} -> `,
    );
    await counted(node, 'rp-filter', true, 1);
    await untilHolds(async () =>
      expect(await node.stage().api.events()).toContainEqual(
        expect.stringMatching(/^NodeConflict: rp_filter is strict.*`sysctl -w net\.ipv4/),
      ),
    );
    expect(node.log('n1')).toContain('something on this node breaks Services');
    const path = ['--from', '203.0.113.9', '--to', '192.0.2.11:30080'];
    expect(await command(node, 'explain', ...path, ...ofAgent(node))).toMatch(
      /on this node +rp-filter +rp_filter is strict/,
    );
    if (promql.isReady) {
      const states = { broken: [await metrics(node)] };
      const firing = await evaluateAlerts(promql.program, states, Date.now());
      expect(firing['broken']).toMatchObject({ FairleadNodeConflict: 120 });
    }
    await ip(node, 'link del second');
    await ip(node, 'rule del from 10.1.1.5 lookup 7');
    await says(node, 'rp-filter');
    await counted(node, 'rp-filter', true, 0);
  });

  test('the bit of rules for "masquerade": breaks Services where rules serve', async () => {
    await ip(node, 'rule add fwmark 0x4000/0x4000 lookup 7 pref 1024');
    await says(node, 'marks', 'fwmark 0x4000/0x4000 lookup 7');
    await counted(node, 'marks', node.proxy === 'rules', 1);
    await ip(node, 'rule del pref 1024');
  });

  test('programs of others at tcx and clsact, and whether they run before ours', async () => {
    const { directory } = node.stage().cluster;
    const pin = join(directory, 'bpf', 'other');
    const [{ ifindex }] = JSON.parse(await node.run('n1', ['ip', '-j', 'link', 'show', 'eth0']));
    await attach(
      node,
      `
      const others = open('build/bpf-test/devices.bpf.o');
      others.program('other').attachTc(${ifindex}, 'ingress', { before: 0 }).pin('${pin}');
      others.program('other').attachTc(${ifindex}, 'egress', { forceClsact: true }).close();
    `,
    );
    const order = node.proxy === 'rules' ? 'without ours' : 'before ours';
    const after = node.proxy === 'rules' ? 'without ours' : 'after ours';
    await says(
      node,
      'other-programs',
      `tcx ingress of eth0: other runs ${order}`,
      `clsact egress of eth0: other runs ${after}`,
    );
    await counted(node, 'other-programs', false, 2);
    rmSync(pin);
    await node.run('n1', ['tc', 'filter', 'del', 'dev', 'eth0', 'egress']);
    await says(node, 'other-programs');
  });

  test('`probe` has the same section, without an agent', async () => {
    await ip(node, 'rule add from 10.1.1.5 lookup 7');
    const report = JSON.parse(await command(node, 'probe', '-o', 'json', ...FLAGS)) as ProbeReport;
    expect(report.onThisNode.map(({ topic }) => topic)).toContain('policy-routing');
    await ip(node, 'rule del from 10.1.1.5 lookup 7');
  });

  test('`probe` looks at FORWARD and at host firewalls; without nft it names the chain that it cannot read', async () => {
    const table =
      'chain early { type filter hook prerouting priority -300; tcp dport 30090 drop; };';
    await node.nft('n1', `table inet site { ${table} }`);
    const probed = async (path: string): Promise<readonly string[]> => {
      const asked = ['env', `PATH=${path}`, process.execPath, compiledPath('main.js'), 'probe'];
      const report = await node.run('n1', [
        ...['sh', '-c', '"$@" || true', 'sh', ...asked, '-o', 'json', ...FLAGS],
      ]);
      return (JSON.parse(report) as ProbeReport).onThisNode
        .filter(({ topic }) => topic === 'host-firewall')
        .map(({ what }) => what);
    };
    expect(await probed(process.env['PATH'] ?? '')).toEqual([
      expect.stringContaining('nftables: chain early of table inet site'),
    ]);
    expect(await probed(folder)).toContainEqual(
      'could not tell: chain early of table inet site cannot be read: nft is missing or fails',
    );
    await node.nft('n1', 'delete table inet site');
  });
});
