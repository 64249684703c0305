// SPDX-License-Identifier: Apache-2.0
// Events about Services: rejected fields and full maps.
import type { SyncFacts } from '../../agent/agent.ts';
import type { Rejection } from '../../model/types.ts';
import type { EventRecorder } from './recorder.ts';

/** @returns a function to be called after each sync; it reports a persistent rejection once */
export function createSyncEvents(
  record: EventRecorder['record'],
): (facts: Pick<SyncFacts, 'plan' | 'report'>) => void {
  let last: readonly Rejection[] = [];
  return ({ plan: { rejections }, report }) => {
    for (const { service, code, reason } of report.failed) {
      if (service === undefined || code !== 'MAP_FULL') continue;
      const [namespace = '', name = ''] = service.split('/');
      record('MapFull', { kind: 'Service', namespace, name }, reason);
    }
    // The planner returns the same list as long as no rejection is added or cleared.
    if (rejections === last) return;
    const known = new Set(last.map(textOf));
    for (const rejection of rejections) {
      const { kind, namespace, name } = rejection.object;
      if (kind !== 'Service' || known.has(textOf(rejection))) continue;
      const note = [rejection.field, rejection.reason].filter((part) => part !== '').join(': ');
      record('InvalidService', { kind, namespace, name }, note);
    }
    last = rejections;
  };
}

const textOf = ({ object, field, reason }: Rejection): string =>
  [object.kind, object.namespace, object.name, field, reason].join('\n');
