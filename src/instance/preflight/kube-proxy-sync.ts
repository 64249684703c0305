// SPDX-License-Identifier: Apache-2.0
// The families in which a kube-proxy of this network namespace says that it has written its rules since it started. Its Pod is ready,
// and its health check succeeds, before that.
import { FAMILIES, type Family } from '../../model/types.ts';
import { type Ask, askBriefly, METRICS_URL } from './other-proxies.ts';

/** Of a success; the count of syncs includes those that failed. Before Kubernetes 1.34 without the label, for both families. */
const LAST_SYNC =
  /^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{ip_family="(?<family>\w+)"\})? (?<seconds>\S+)$/gm;

/** None if nobody answers there, or a fairlead, which has the same metrics. */
export async function syncedFamilies(ask: Ask = askBriefly): Promise<ReadonlySet<Family>> {
  const metrics = await ask(METRICS_URL);
  return metrics.includes('\nfairlead_') ? new Set() : syncedIn(metrics);
}

const syncedIn = (metrics: string): ReadonlySet<Family> =>
  new Set(
    [...metrics.matchAll(LAST_SYNC)].flatMap(({ groups: { family, seconds } = {} }) =>
      Number(seconds) > 0 ? FAMILIES.filter((one) => family === undefined || one === family) : [],
    ),
  );
