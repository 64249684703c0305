// SPDX-License-Identifier: Apache-2.0
// What the tools take by themselves: iptables-restore of the chain of one Service, in the table that a proxy has written. Every
// proxy with these tools pays it for every change, whatever else it does.
import { run } from '../../../src/sys/exec.ts';
import { insideNamespace } from '../../../src/sys/netns.ts';
import { percentile } from '../../../tools/bench/lib/quantiles.ts';
import type { ToolsFigures as Alone, Variant } from '../report/figures.ts';
import { type Seat, type Site, seatName } from '../site.ts';
import { ownLock } from './proxy.ts';

const TIMES = 7;
const LONG_MS = 600_000;
const RESTORE = ['--noflush', '--counters', '-w', '5'];

/** Median of several. undefined if the table has no chain of the Service. */
export async function measureTools(site: Site, seat: Seat): Promise<Alone | undefined> {
  const { variant, probes } = site;
  const saved = await runOn(site, seat, `iptables-${variant}-save -t nat`);
  const input = chainOf(saved, probes[0]?.clusterIp ?? '');
  if (input === undefined) return undefined;
  const all: Alone[] = [];
  for (let time = 0; time < TIMES; time += 1) {
    all.push(await restoreOnce(site, seat, { variant, input }));
  }
  const median = (what: keyof Alone): number =>
    percentile(
      all.map((one) => one[what]),
      0.5,
    );
  return { wallMs: median('wallMs'), cpuMs: median('cpuMs') };
}

/** As iptables-restore --noflush takes it: emptied, and filled with the same rules. */
export function chainOf(saved: string, clusterIp: string): string | undefined {
  const lines = saved.split('\n');
  const jump = lines.find((line) => line.startsWith(`-A KUBE-SERVICES -d ${clusterIp}/32 `));
  const chain = / -j (KUBE-SV[CL]-\S+)$/.exec(jump ?? '')?.[1];
  if (chain === undefined) return undefined;
  const rules = lines.filter((line) => line.startsWith(`-A ${chain} `));
  return ['*nat', `:${chain} - [0:0]`, ...rules, 'COMMIT', ''].join('\n');
}

async function restoreOnce(
  site: Site,
  seat: Seat,
  { variant, input }: { readonly variant: Variant; readonly input: string },
): Promise<Alone> {
  const restore = `iptables-${variant}-restore ${RESTORE.join(' ')}`;
  const timed = `TIMEFORMAT='%R %U %S'; { time ${restore} >&2; } 2>&1`;
  const printed = await runOn(site, seat, timed, input);
  const [wall = 0, user = 0, system = 0] = printed.trim().split(' ').map(Number);
  return { wallMs: wall * 1000, cpuMs: (user + system) * 1000 };
}

async function runOn(site: Site, seat: Seat, command: string, stdin = ''): Promise<string> {
  const { namespace } = site.nodeOf(seat);
  const [program = '', ...args] = insideNamespace(namespace, [
    ...['env', ownLock(site, seat), 'bash', '-c', command],
  ]);
  const { code, stdout, stderr } = await run(program, args, { stdin, timeoutMs: LONG_MS });
  if (code !== 0) throw new Error(`${seatName(seat)}, ${command}: ${stdout}${stderr}`);
  return stdout;
}
