// SPDX-License-Identifier: Apache-2.0
// IPVS on Linux 6.12, whether the host's kernel has it or not: what is left of it is listed, and removed only when asked (ipvs.sh);
// and where clients of the real kube-proxy in mode ipvs see something else than of fairlead's rules (compare.sh).
import { describe, expect, test } from 'vitest';
import { prepareCluster } from '../../../cluster/programs/binaries.ts';
import { kinds, runLab } from '../lab.ts';
import { ipvsTools } from './ipvs-tools.ts';

const environment = ipvsTools();
const { guest, code, output } = await runLab('6.12', ['ipvs.sh'], environment);

interface Step {
  readonly text: string;
  readonly code: number;
}
const steps = new Map<string, Step>(
  output
    .split(/^@ /m)
    .slice(1)
    .map((section): [string, Step] => {
      const [, name = '', text = '', status = '1'] =
        /^(\S+)\n(.*)^@code (\d+)/ms.exec(section) ?? [];
      return [name, { text, code: Number(status) }];
    }),
);
const step = (name: string): Step => steps.get(name) ?? { text: output, code: -1 };

const LISTED = [
  ['virtual server', 'UDP 10.96.0.10:53', 0],
  ['virtual server', 'TCP 10.96.0.10:80', 2],
  ['virtual server', 'SCTP 203.0.113.10:9999', 0],
  ['virtual server', 'TCP [fd00:96::10]:80', 1],
  ['virtual server', 'TCP 192.0.2.11:30080', 1],
  ['ipset', 'KUBE-CLUSTER-IP', 1],
  ['ipset', 'KUBE-6-CLUSTER-IP', 0],
  ['ipset', 'KUBE-NODE-PORT-TCP', 1],
  ['ipset', 'KUBE-LOOP-BACK', 0],
  ['device', 'kube-ipvs0', 3],
] as const;
const KEPT =
  'kept ipvs virtual server TCP 192.0.2.11:7777: its address is not on kube-ipvs0, and its port is no NodePort';
const COUNTS = '4 ipsets, 5 virtual servers, 1 device';

describe(guest.name, () => {
  test('the script ran to its end', () => expect(code, output).toBe(0));

  test.each(LISTED)('a dry run lists the %s %s with %i', (kind, what, count) => {
    const columns = [kind, 'ipvs', what, String(count)];
    const rows = step('dry-run')
      .text.split('\n')
      .map((line) => line.split(/ {2,}/));
    expect(rows).toContainEqual(columns);
  });

  test('and says what would be removed, and what is kept', () => {
    expect(step('dry-run').text).toMatch(new RegExp(`^would remove .*${COUNTS}$`, 'm'));
    expect(step('dry-run').text).toContain(KEPT);
    expect(step('dry-run').code).toBe(0);
  });

  test('and changes nothing', () => {
    expect(step('after-dry-run')).toEqual(step('before'));
  });

  test('without ipvsadm and ipset nothing of IPVS is forgotten: the failure names them', () => {
    expect(step('without-tools').text).toMatch(/ipset|ipvsadm/);
    expect(step('without-tools').code).not.toBe(0);
  });

  test('all of kube-proxy is removed, nothing of others', () => {
    expect(step('removed').text).toMatch(new RegExp(`^removed .*${COUNTS}$`, 'm'));
    expect(step('removed').text).toContain(KEPT);
    expect(step('removed').code).toBe(0);
    const left = [
      '-A -t 192.0.2.11:7777 -s rr',
      '-A -f 7 -s rr',
      'create theirs hash:ip family inet',
    ];
    expect(step('after').text.trim().split('\n')).toEqual(left);
  });

  test('a second time there is nothing to remove', () => {
    expect(step('again').text).toMatch(/^kube-proxy has left nothing to remove$/m);
    expect(step('again').code).toBe(0);
  });
});

/** What clients see instead of what fairlead's rules give them; docs/semantics.md has them as a table. */
const FAR = '10.1.2.5:8080';
const DIFFERENCES: Readonly<Record<string, string>> = {
  'node, ping of a ClusterIP': 'ECONNREFUSED',
  'outside, ping of a ClusterIP': 'ECONNREFUSED',
  'pod, internal policy Local without endpoint': `${FAR}>10.1.1.9`,
  'node, internal policy Local without endpoint': `${FAR}>192.0.3.1`,
  'outside, internal policy Local without endpoint': `${FAR}>192.0.3.1`,
  'outside, external policy Local without endpoint, NodePort': `${FAR}>192.0.2.200`,
  'outside, external policy Local without endpoint, balancer address': `${FAR}>192.0.2.200`,
  'node, external policy Local without endpoint, NodePort': `${FAR}>192.0.2.11`,
  'node, external policy Local without endpoint, balancer address': `${FAR}>203.0.113.12`,
  'node, NodePort at 127.0.0.1': 'ECONNREFUSED',
};
/** One endpoint of two, by chance or in turn; and pings of pods, whose answer depends on the rules that are there. */
const isOpen = (what: string): boolean =>
  /affinity|another address|as the source|^pod, ping/.test(what);

const readiness = await prepareCluster();
describe.skipIf(!readiness.isReady)(`${guest.name}: kube-proxy in mode ipvs`, async () => {
  if (!readiness.isReady) return;
  const words = ['compare.sh', 'ipvs', 'FOLDER', readiness.binaries.kubeProxy];
  const ipvs = await runLab('6.12', words, environment);
  const rules = await runLab('6.12', ['compare.sh', 'iptables', 'FOLDER']);
  const asked = rules.output
    .split('\n')
    .flatMap((line) => /^((?:pod|node|outside|endpoint), .*?): /.exec(line)?.[1] ?? []);

  test('all was asked of both', () => {
    expect(ipvs.code, ipvs.output).toBe(0);
    expect(rules.code, rules.output).toBe(0);
  });

  test.each(asked.filter((what) => !isOpen(what)))('%s', (what) => {
    expect(kinds(ipvs.answer(what))).toBe(DIFFERENCES[what] ?? kinds(rules.answer(what)));
  });

  test('the addresses of Services are addresses of the node', () => {
    expect(Number(ipvs.answer('addresses of the node'))).toBeGreaterThan(0);
    expect(rules.answer('addresses of the node')).toBe('0');
  });
});
