// SPDX-License-Identifier: Apache-2.0
// The start of a proxy, and when all probe Services answer.
import { START_PATIENCE_MS, START_PROBE_PERIOD_MS } from './changes/pace.ts';
import type { Prober } from './changes/prober.ts';
import { monotonicMs } from './clock.ts';
import { startFairlead } from './proxies/fairlead.ts';
import { startKubeProxy } from './proxies/kube-proxy.ts';
import type { RunningProxy } from './proxies/proxy.ts';
import type { StartFigures } from './report/figures.ts';
import type { Seat, Site } from './site.ts';

export async function startProxy(site: Site, seat: Seat): Promise<RunningProxy> {
  const { proxy, round } = seat;
  return proxy === 'iptables' || proxy === 'nftables'
    ? startKubeProxy(site, proxy, round)
    : startFairlead(site, seat);
}

/** Throws NotReached. Measured from exec. Services are probed one after the other, so the last answer is the end. */
export async function watchStart(
  proxy: RunningProxy,
  prober: Prober,
  { site, limitSeconds }: { readonly site: Site; readonly limitSeconds: number },
): Promise<StartFigures> {
  const deadlineMs = proxy.startedMs + limitSeconds * 1000;
  let [endMs, connections] = [proxy.startedMs, 0];
  for (const { clusterIp } of site.probes) {
    const probe = await prober.begin({
      address: clusterIp,
      port: 80,
      tag: '*',
      periodMs: START_PROBE_PERIOD_MS,
      patienceMs: START_PATIENCE_MS,
      timeoutMs: Math.max(0, Math.round(deadlineMs - monotonicMs())),
    });
    const reached = await probe.reached();
    connections += reached.connections;
    endMs = reached.endMs;
  }
  const wallSeconds = (endMs - proxy.startedMs) / 1000;
  return { wallSeconds, cpuSeconds: proxy.cpuSeconds(), connections };
}
