// SPDX-License-Identifier: Apache-2.0
// One column of one size in one round: starts a proxy, measures its start, changes endpoints while it runs, stops it.
import { removeRules } from '../../tools/bench/proxies/tools.ts';
import { ChangeSeries } from './changes/change-series.ts';
import { type Pace, paceOf, SETTLE_MS } from './changes/pace.ts';
import { NotReached, type Prober, startProber } from './changes/prober.ts';
import { letPass } from './clock.ts';
import { measureFlushed } from './proxies/flushed.ts';
import { meanSeconds, NO_SYNCS, readSyncs, type Syncs } from './proxies/metrics.ts';
import { ownLock, proxySandbox, type RunningProxy } from './proxies/proxy.ts';
import { ruleLines } from './proxies/rules.ts';
import { measureTools } from './proxies/tools-alone.ts';
import type {
  ChurnFigures,
  Column,
  Figures,
  StallFigures,
  StartFigures,
} from './report/figures.ts';
import type { Seat, Site } from './site.ts';
import { startProxy, watchStart } from './start.ts';

export interface Turn {
  readonly site: Site;
  readonly seat: Seat;
  /** Limit on single changes. */
  readonly changes: number;
  readonly isBrief: boolean;
  /** Limit on the start. */
  readonly limitSeconds: number;
  readonly onProgress: (what: string) => void;
}

export async function measureColumn(turn: Turn): Promise<Column> {
  const { site, seat, changes } = turn;
  const node = site.nodeOf(seat);
  const prober = startProber(node.pods[0]!);
  for (const { number } of site.probes) await site.changer.change(number, [site.backends.a]);
  const proxy = await startProxy(site, seat);
  try {
    const means = { ...turn, prober, pace: paceOf(seat.proxy, changes) };
    return await Promise.race([measure(proxy, means), proxy.ended()]);
  } finally {
    await Promise.all([prober.stop(), proxy.stop()]);
    // The memory of a hundred thousand rules is not left to the next column.
    await removeRules(proxySandbox(site, seat).sandbox, ownLock(site, seat));
  }
}

interface Means extends Turn {
  readonly prober: Prober;
  readonly pace: Pace;
}

async function measure(proxy: RunningProxy, means: Means): Promise<Column> {
  const { site, prober, limitSeconds, onProgress } = means;
  let start: StartFigures;
  try {
    start = await watchStart(proxy, prober, { site, limitSeconds });
  } catch (error) {
    if (!(error instanceof NotReached)) throw error;
    onProgress(`does not answer after ${limitSeconds} s`);
    return { limitSeconds, cpuSeconds: proxy.cpuSeconds() };
  }
  const { wallSeconds, cpuSeconds, connections } = start;
  const times = `${wallSeconds.toFixed(2)} s, ${cpuSeconds.toFixed(2)} s of CPU`;
  onProgress(`answers after ${times}, ${connections} connections tried`);
  return measureStarted(proxy, means, start);
}

async function measureStarted(
  proxy: RunningProxy,
  { site, seat, isBrief, prober, pace, onProgress }: Means,
  start: StartFigures,
): Promise<Figures> {
  const loading = await proxy.loadingStallMs();
  const stalls = { loading, start: await proxy.takeStallMs('pause') };
  await letPass(SETTLE_MS);
  const resident = proxy.residentBytes();
  const node = site.nodeOf(seat);
  const lines = await ruleLines(node, seat.proxy, site.variant);
  const before = await readSyncs(node);
  const series = new ChangeSeries(site, proxy, prober, pace);
  onProgress('single changes');
  const quiet = await series.quiet();
  const after = await readSyncs(node);
  await proxy.takeStallMs();
  const churn = isBrief ? undefined : await measureChurn(series, onProgress);
  const churnStallMs = await proxy.takeStallMs();
  const toolsAlone = hasRules(seat) ? await measureTools(site, seat) : undefined;
  const peakBytes = proxy.residentBytes().peak;
  // Last, as it removes the rules.
  const flushedSeconds = hasRules(seat) ? await measureFlushed(site, seat) : undefined;
  return {
    ...{ start, ...quiet, probePeriodMs: pace.probePeriodMs },
    ...(churn !== undefined && { churn }),
    memory: {
      peakAfterStartBytes: resident.peak,
      after10sBytes: resident.now,
      peakAfterChurnBytes: peakBytes,
    },
    ...(lines !== undefined && { ruleLines: lines }),
    ...(toolsAlone !== undefined && { toolsAlone }),
    ...(flushedSeconds !== undefined && { flushedSeconds }),
    ...syncFigures(before, after),
    ...stallFigures(stalls.loading, stalls.start, churnStallMs),
  };
}

const hasRules = ({ proxy }: Seat): boolean =>
  proxy === 'iptables' || proxy === 'fairlead-iptables';

async function measureChurn(
  series: ChangeSeries,
  onProgress: (what: string) => void,
): Promise<ChurnFigures> {
  onProgress('single changes among others');
  const busy = await series.busy();
  onProgress('streams of changes');
  return { busy, ...(await series.streams()) };
}

function syncFigures(
  before: Syncs | undefined,
  after: Syncs | undefined,
): Pick<Figures, 'syncs'> | undefined {
  if (before === undefined || after === undefined) return undefined;
  const fullSeconds = meanSeconds(NO_SYNCS, before.full);
  const oneSeconds = meanSeconds(before.partial, after.partial);
  if (fullSeconds === undefined || oneSeconds === undefined) return undefined;
  return { syncs: { fullSeconds, oneSeconds } };
}

function stallFigures(
  loadingMs: number | undefined,
  startMs: number | undefined,
  churnMs: number | undefined,
): { readonly stalls?: StallFigures } {
  if (loadingMs === undefined || startMs === undefined || churnMs === undefined) return {};
  return { stalls: { loadingMs, startMs, churnMs } };
}
