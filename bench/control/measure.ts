// SPDX-License-Identifier: Apache-2.0
// One column of one size: starts a proxy, measures its start, changes endpoints while it runs, stops it.
import { ChangeSeries } from './changes/change-series.ts';
import {
  type Pace,
  paceOf,
  SETTLE_MS,
  START_PATIENCE_MS,
  START_PROBE_PERIOD_MS,
} from './changes/pace.ts';
import { type Prober, startProber } from './changes/prober.ts';
import { letPass } from './clock.ts';
import { startFairlead } from './proxies/fairlead.ts';
import { startKubeProxy } from './proxies/kube-proxy.ts';
import type { RunningProxy } from './proxies/proxy.ts';
import type { Figures, ProxyName, StallFigures, StartFigures } from './report/figures.ts';
import type { Site } from './site.ts';

const START_TIMEOUT_MS = 300_000;

export interface Column {
  readonly site: Site;
  readonly proxy: ProxyName;
  /** Limit on single changes. */
  readonly changes: number;
  readonly onProgress: (what: string) => void;
}

export async function measureColumn({
  site,
  proxy: name,
  changes,
  onProgress,
}: Column): Promise<Figures> {
  const prober = startProber(site.nodeOf(name).pods[0]!);
  for (const { number } of site.probes) await site.changer.change(number, [site.backends.a]);
  const proxy = name === 'fairlead' ? await startFairlead(site) : startKubeProxy(site, name);
  try {
    const means = { prober, pace: paceOf(name, changes), onProgress };
    return await Promise.race([measure(site, proxy, means), proxy.ended()]);
  } finally {
    await Promise.all([prober.stop(), proxy.stop()]);
  }
}

interface Means {
  readonly prober: Prober;
  readonly pace: Pace;
  readonly onProgress: (what: string) => void;
}

async function measure(site: Site, proxy: RunningProxy, means: Means): Promise<Figures> {
  const { prober, pace, onProgress } = means;
  const start = await watchStart(site, proxy, prober);
  const stalls = { loading: await proxy.loadingStallMs(), start: await proxy.takeStallMs() };
  const { wallSeconds, cpuSeconds, connections } = start;
  const times = `${wallSeconds.toFixed(2)} s, ${cpuSeconds.toFixed(2)} s of CPU`;
  onProgress(`answers after ${times}, ${connections} connections tried`);
  await letPass(SETTLE_MS);
  const resident = proxy.residentBytes();
  const series = new ChangeSeries(site, proxy, prober, pace);
  onProgress('single changes');
  const quiet = await series.quiet();
  await proxy.takeStallMs();
  onProgress('single changes among others');
  const busy = await series.busy();
  onProgress('streams of changes');
  const { last, churn } = await series.streams();
  const churnStallMs = await proxy.takeStallMs();
  return {
    ...{ start, quiet, busy, last, churn, probePeriodMs: pace.probePeriodMs },
    memory: {
      peakAfterStartBytes: resident.peak,
      after10sBytes: resident.now,
      peakAfterChurnBytes: proxy.residentBytes().peak,
    },
    ...stallFigures(stalls.loading, stalls.start, churnStallMs),
  };
}

/** Measured from exec. Services are probed one after the other, so the last answer is the end. */
async function watchStart(site: Site, proxy: RunningProxy, prober: Prober): Promise<StartFigures> {
  let [endMs, connections] = [proxy.startedMs, 0];
  for (const { clusterIp } of site.probes) {
    const probe = await prober.begin({
      address: clusterIp,
      port: 80,
      tag: '*',
      periodMs: START_PROBE_PERIOD_MS,
      patienceMs: START_PATIENCE_MS,
      timeoutMs: START_TIMEOUT_MS,
    });
    const reached = await probe.reached();
    connections += reached.connections;
    endMs = reached.endMs;
  }
  const wallSeconds = (endMs - proxy.startedMs) / 1000;
  return { wallSeconds, cpuSeconds: proxy.cpuSeconds(), connections };
}

function stallFigures(
  loadingMs: number | undefined,
  startMs: number | undefined,
  churnMs: number | undefined,
): { readonly stalls?: StallFigures } {
  if (loadingMs === undefined || startMs === undefined || churnMs === undefined) return {};
  return { stalls: { loadingMs, startMs, churnMs } };
}
