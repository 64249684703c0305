// SPDX-License-Identifier: Apache-2.0
// What a connection costs by IPVS, which the host's kernel may lack, and by fairlead, in one virtual machine with Linux 6.12 (speed.sh). Its
// clock counts instructions: nothing else that this machine does changes the figures, which are printed.
import { describe, expect, test } from 'vitest';
import { prepareCluster } from '../../../cluster/programs/binaries.ts';
import { type LabRun, runLab } from '../lab.ts';
import { ipvsTools } from './ipvs-tools.ts';

const COUNT = 2_000;
const WHAT = [
  'connections, outside',
  'exchanges, outside',
  'connections, pod',
  'exchanges, pod',
] as const;
type What = (typeof WHAT)[number];

const ROUNDS = [1, 2, 3] as const;

/** Thousands of instructions for each, in the round with the fewest; NaN if not all were answered in each. */
function costOf(run: LabRun | undefined, what: What): number {
  const costs = ROUNDS.map((round) => {
    const answer = run?.answer(`${what}, round ${round}`) ?? '';
    const [, answered, ms] = /:8080>\S+=(\d+) (\d+)$/.exec(answer) ?? [];
    return Number(answered) === COUNT ? (Number(ms) * 1000) / COUNT : Number.NaN;
  });
  return Math.min(...costs);
}

const readiness = await prepareCluster();
describe.skipIf(!readiness.isReady)('the cost of a Service on Linux 6.12', async () => {
  if (!readiness.isReady) return;
  const environment = ipvsTools();
  const { kubeProxy } = readiness.binaries;
  const runs = new Map<string, LabRun>();
  for (const proxy of ['none', 'ipvsadm', 'ipvs', 'iptables', 'bpf']) {
    const words = ['speed.sh', proxy, 'FOLDER', kubeProxy];
    runs.set(proxy, await runLab('6.12', words, environment));
  }
  process.stdout.write(`${tableOf(runs)}\n`);

  test.each([...runs])('%s: all were answered', (_, run) => {
    expect(run.code, run.output).toBe(0);
    for (const what of WHAT) expect(costOf(run, what), run.output).toBeGreaterThan(0);
  });

  test.each(WHAT)('%s: by eBPF no more than by kube-proxy in mode ipvs', (what) => {
    expect(costOf(runs.get('bpf'), what)).toBeLessThanOrEqual(costOf(runs.get('ipvs'), what));
  });
});

/** Thousands of instructions, with the ratio to none. */
function tableOf(runs: ReadonlyMap<string, LabRun>): string {
  const rows = [...runs].map(([proxy, run]) => {
    const cells = WHAT.map((what) => {
      const cost = costOf(run, what);
      return `${cost.toFixed(1)} (${(cost / costOf(runs.get('none'), what)).toFixed(2)})`;
    });
    return `| ${[proxy, ...cells].join(' | ')} |`;
  });
  return [`| | ${WHAT.join(' | ')} |`, `|${'---|'.repeat(WHAT.length + 1)}`, ...rows].join('\n');
}
