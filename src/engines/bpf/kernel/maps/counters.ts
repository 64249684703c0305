// SPDX-License-Identifier: Apache-2.0
// fl_reason: outcomes of socket calls and of packets without a flow, summed over CPUs, by the names of enum reason.
import type { BpfMap } from '../../../../sys/native.ts';
import { encodeU32 } from '../../layout/layout.ts';

/** In the order of enum reason (bpf/common/reason.h); undefined is reserved there. test/unit compares both. */
export const REASONS = [
  'TRANSLATED',
  'NOT_A_FRONTEND',
  'SKIPPED_CGROUP',
  undefined,
  'SKIPPED_LOOPBACK_SOURCE',
  'REFUSED_NO_BACKENDS',
  'DROPPED_NO_LOCAL_BACKENDS',
  'STALE_BACKEND',
  'NO_SOCKET_STORAGE',
  'REVERSE_TRANSLATED',
  'FLOW_ENDED',
  'SKIPPED_SOURCE_RANGES',
  'DROPPED_SOURCE_RANGES',
  'TRUNCATED_HEADER',
  'BAD_HEADER',
  'TOO_MANY_HEADERS',
  'DROPPED_MARTIAN',
  'DROPPED_FRAGMENT',
  'UNKNOWN_CONNECTION',
  'ANSWER_LIMITED',
  'NOT_ANSWERED',
  'FLOW_TABLE_FULL',
  'DROPPED_NO_FLOW',
  'DROPPED_NO_PORT',
  'DROPPED_NO_ADDRESS',
  'NOT_REWRITTEN',
  'CLIENT_PORT_CHANGED',
  'ICMP_TRANSLATED',
  'REFUSED_BIND',
  'PING_ANSWERED',
  'HALF_OPEN_EVICTED',
  'REFUSED_STALE_SOCKET',
  'ADOPTED',
  ...[undefined, undefined, undefined],
  'DIRECT_TOO_BIG',
  'DIRECT_NO_PEER',
  'DIRECT_NO_ROUTE',
  'DIRECT_NOT_WRAPPED',
  'DIRECT_ICMP',
  'DIRECT_TIME_EXCEEDED',
  'GENEVE_STRANGER',
  'GENEVE_MALFORMED',
  'GENEVE_NOT_A_FRONTEND',
  'GENEVE_NO_BACKEND',
  'GENEVE_NOT_UNWRAPPED',
  'DIRECT_GIVEN_BACK',
  'XDP_SENT',
  'XDP_NO_TARGET',
  'XDP_NO_NEIGHBOUR',
  'XDP_TOO_BIG',
  'XDP_NO_WAY',
  'XDP_OTHER_WAY',
  'XDP_UNFINISHED',
  'XDP_RENEWS',
  'DIRECT_OUTDATED',
  'ANSWER_SENT_BACK',
  'ANSWER_NO_WAY',
  'SENT_ON',
  'SKIPPED_NETNS',
  'GENEVE_NO_COOKIE',
  'DROPPED_BUSY',
] as const;

/** Exact up to 2^53. */
export function readReasons(map: BpfMap): Readonly<Record<string, number>> {
  return Object.fromEntries(
    REASONS.flatMap((name, index) =>
      name === undefined ? [] : [[name, sumOverCpus(map.get(encodeU32(index)))]],
    ),
  );
}

function sumOverCpus(values: Uint8Array | undefined): number {
  if (values === undefined) return 0;
  const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
  let sum = 0;
  for (let at = 0; at < values.byteLength; at += 8) sum += Number(view.getBigUint64(at, true));
  return sum;
}
