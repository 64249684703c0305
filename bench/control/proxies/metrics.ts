// SPDX-License-Identifier: Apache-2.0
// What a proxy says of its own syncs; fairlead has kube-proxy's metrics. Asked before and after a series, never during it.

import { run } from '../../../src/sys/exec.ts';
import { insideNamespace } from '../../../src/sys/netns.ts';
import type { NodeHost } from '../../../tools/lab/wiring.ts';

/** Of IPv4, since the start of the proxy. */
export interface Syncs {
  readonly full: Duration;
  readonly partial: Duration;
}

interface Duration {
  readonly count: number;
  readonly seconds: number;
}

/** undefined if it does not tell. */
export async function readSyncs({
  namespace,
}: Pick<NodeHost, 'namespace'>): Promise<Syncs | undefined> {
  const url = 'http://127.0.0.1:10249/metrics';
  const [program = '', ...args] = insideNamespace(namespace, ['curl', '-s', '-m', '30', url]);
  const { code, stdout } = await run(program, args);
  return code === 0 ? parseSyncs(stdout) : undefined;
}

export function parseSyncs(metrics: string): Syncs {
  const read = (kind: 'full' | 'partial', what: 'sum' | 'count'): number => {
    const name = `kubeproxy_sync_${kind}_proxy_rules_duration_seconds_${what}`;
    const line = new RegExp(`^${name}\\{.*ip_family="IPv4".*\\} (\\S+)$`, 'm').exec(metrics);
    return Number(line?.[1] ?? 0);
  };
  const duration = (kind: 'full' | 'partial'): Duration => ({
    count: read(kind, 'count'),
    seconds: read(kind, 'sum'),
  });
  return { full: duration('full'), partial: duration('partial') };
}

/** Mean of the syncs between the two; undefined without any. */
export function meanSeconds(before: Duration, after: Duration): number | undefined {
  const count = after.count - before.count;
  return count > 0 ? (after.seconds - before.seconds) / count : undefined;
}

export const NO_SYNCS: Duration = { count: 0, seconds: 0 };
