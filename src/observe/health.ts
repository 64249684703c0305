// SPDX-License-Identifier: Apache-2.0
// Health of this node's proxy and the reasons: the first line and the exit code of `fairlead status`.
import { isOfObject } from '../model/problem.ts';
import type { KernelState } from './rows.ts';
import type { ServiceRow } from './service-rows.ts';
import type { ShadowView } from './shadow-view.ts';
import type { Status } from './status.ts';

/** Frontends by state. */
export type FrontendCounts = Readonly<Record<KernelState, number>>;

export interface Health {
  readonly state: 'in sync' | 'starting' | 'degraded';
  /** Empty if in sync. */
  readonly reasons: readonly string[];
}

export function countFrontends(rows: readonly Pick<ServiceRow, 'kernelState'>[]): FrontendCounts {
  const counts = {
    ...{ ok: 0, missing: 0, stale: 0, 'node-process': 0, withheld: 0 },
    ...{ extra: 0, 'not-served': 0, unknown: 0 },
  };
  for (const { kernelState } of rows) counts[kernelState]++;
  return counts;
}

/** Degraded by anything an operator must know of, not only by what stops traffic. */
export function healthOf(
  status: Pick<Status, 'isReady' | 'sync' | 'problems' | 'refused' | 'devices' | 'shadow'>,
  frontends: FrontendCounts,
): Health {
  if (!status.isReady) {
    return { state: 'starting', reasons: ['the initial sync is not complete'] };
  }
  const problems = status.problems.filter(({ isWarning }) => isWarning !== true);
  const waits = problems.filter(({ isDelayed }) => isDelayed === true).length;
  const rejected = problems.filter(isOfObject).length - waits;
  const reasons = [
    counted(rejected, 'rejected object or field', 'rejected objects or fields'),
    counted(problems.length - rejected - waits, 'source problem', 'source problems'),
    counted(waits, 'removal of most Services waits', 'removals of most Services wait'),
    counted(status.sync.failed.length, 'entry failed to sync', 'entries failed to sync'),
    counted(status.refused.length, 'layer refused by the kernel', 'layers refused by the kernel'),
    counted(
      status.devices.filter(({ isFailed }) => isFailed).length,
      'device without its programs',
      'devices without their programs',
    ),
    counted(frontends.missing, 'frontend missing', 'frontends missing'),
    counted(frontends.stale, 'frontend stale', 'frontends stale'),
    counted(frontends.extra, 'frontend not in the plan', 'frontends not in the plan'),
    ...(status.shadow === undefined
      ? [counted(frontends['not-served'], 'frontend not served', 'frontends not served')]
      : shadowReasons(status.shadow)),
  ].filter((reason) => reason !== '');
  return { state: reasons.length === 0 ? 'in sync' : 'degraded', reasons };
}

const shadowReasons = ({ problem, differing, unread }: ShadowView): readonly string[] => [
  problem === undefined ? '' : 'nothing can be compared',
  counted(unread.length, 'rule of kube-proxy not read', 'rules of kube-proxy not read'),
  counted(
    differing.length,
    'Service would be served in another way',
    'Services would be served in another way',
  ),
];

const counted = (count: number, one: string, many: string): string =>
  count === 0 ? '' : `${count} ${count === 1 ? one : many}`;
