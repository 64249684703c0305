// SPDX-License-Identifier: Apache-2.0
// What a connection costs by IPVS, which the host's kernel may lack, and by fairlead, in one virtual machine with Linux 6.12 (speed.sh). Its
// clock counts instructions: nothing else that this machine does changes the figures, which are printed.
import { describe, expect, test } from 'vitest';
import { prepareCluster } from '../../../cluster/programs/binaries.ts';
import { type LabRun, runLab } from '../lab.ts';
import { ipvsTools } from './ipvs-tools.ts';

const PROXIES = ['none', 'ipvsadm', 'ipvs', 'iptables', 'bpf'] as const;
const COUNT = 2_000;
const WHAT = [
  'connections, outside',
  'exchanges, outside',
  'connections, pod',
  'exchanges, pod',
] as const;
type What = (typeof WHAT)[number];

const ROUNDS = [1, 2, 3] as const;
/** What a proxy does meanwhile only adds: on a machine with other work, up to a quarter in all three rounds. */
const TRIES = 3;

/** Thousands of instructions for each, in the round with the fewest; NaN if not all were answered in each. */
function costOf(runs: readonly LabRun[], what: What): number {
  const costs = runs.flatMap((run) =>
    ROUNDS.map((round) => {
      const answer = run.answer(`${what}, round ${round}`) ?? '';
      const [, answered, ms] = /:8080>\S+=(\d+) (\d+)$/.exec(answer) ?? [];
      return Number(answered) === COUNT ? (Number(ms) * 1000) / COUNT : Number.NaN;
    }),
  );
  return Math.min(...costs);
}

const readiness = await prepareCluster();
describe.skipIf(!readiness.isReady)('the cost of a Service on Linux 6.12', async () => {
  if (!readiness.isReady) return;
  const environment = ipvsTools();
  const { kubeProxy } = readiness.binaries;
  const runs = new Map<string, LabRun[]>(PROXIES.map((proxy) => [proxy, []]));
  const of = (proxy: string): LabRun[] => runs.get(proxy)!;
  const measure = async (proxy: string): Promise<unknown> =>
    of(proxy).push(await runLab('6.12', ['speed.sh', proxy, 'FOLDER', kubeProxy], environment));
  const isMore = (what: What): boolean => costOf(of('bpf'), what) > costOf(of('ipvs'), what);
  for (const proxy of PROXIES) await measure(proxy);
  while (of('bpf').length < TRIES && WHAT.some(isMore)) {
    for (const proxy of ['ipvs', 'bpf']) await measure(proxy);
  }
  process.stdout.write(`${tableOf(runs)}\n`);

  test.each(PROXIES)('%s: all were answered', (proxy) => {
    for (const run of of(proxy)) {
      expect(run.code, run.output).toBe(0);
      for (const what of WHAT) expect(costOf([run], what), run.output).toBeGreaterThan(0);
    }
  });

  test.each(WHAT)('%s: by eBPF no more than by kube-proxy in mode ipvs', (what) => {
    expect(costOf(of('bpf'), what)).toBeLessThanOrEqual(costOf(of('ipvs'), what));
  });
});

/** Thousands of instructions, with the ratio to none. */
function tableOf(runs: ReadonlyMap<string, readonly LabRun[]>): string {
  const none = runs.get('none') ?? [];
  const rows = [...runs].map(([proxy, ofProxy]) => {
    const cells = WHAT.map((what) => {
      const cost = costOf(ofProxy, what);
      return `${cost.toFixed(1)} (${(cost / costOf(none, what)).toFixed(2)})`;
    });
    return `| ${[proxy, ...cells].join(' | ')} |`;
  });
  return [`| | ${WHAT.join(' | ')} |`, `|${'---|'.repeat(WHAT.length + 1)}`, ...rows].join('\n');
}
