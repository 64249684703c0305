// SPDX-License-Identifier: Apache-2.0
// The metrics that need an API server, the alerts on them, and Events as kubectl shows them.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { API_SERVER_METRICS, Scrapes } from '../../../support/http/scrape.ts';
import { evaluateAlerts, preparePromql } from '../../../support/programs/promql.ts';
import { untilHolds } from '../../../support/until.ts';
import { type FaultStage, startFaultStage } from '../faults/fault-stage.ts';
import { type Asked, refusal } from '../faults/faulty-server.ts';
import { addService } from '../objects/objects.ts';
import { prepareFaults } from '../programs/clock.ts';

const readiness = await prepareFaults();
const promql = readiness.isReady ? await preparePromql() : undefined;
const EVENTS_PATH = '/apis/events.k8s.io/v1/namespaces/default/events';
const isEvents = ({ path }: Asked): boolean => path.endsWith('/events');
/** More than the Event queue holds. */
const CONFLICTS = 130;

interface EventObject {
  readonly reason: string;
  readonly note: string;
  readonly regarding: { readonly kind: string; readonly name: string };
}

describe.skipIf(!readiness.isReady)('metrics of an agent on an API server', () => {
  let stage: FaultStage;
  let scrapes: Scrapes;
  const states: Record<string, string[]> = {};
  /** The scrape is frozen: that something was heard becomes older while further tests run. */
  let heardAtMs = 0;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    stage = await startFaultStage(readiness.binaries);
    scrapes = new Scrapes(stage.node.instance.sandbox);
  });
  afterAll(() => stage?.remove());

  const events = async (): Promise<readonly EventObject[]> =>
    (await stage.plane.api.get<{ items: EventObject[] }>(EVENTS_PATH)).items;
  const above = (series: string, value: number): Promise<void> =>
    untilHolds(
      async () => expect(await scrapes.value(series), series).toBeGreaterThan(value),
      60_000,
    );
  const conflict = (name: string): Promise<unknown> =>
    addService(stage.plane.api, name, { externalIPs: ['198.51.100.10'] });

  test('not ready while the API server does not answer, then ready', async () => {
    stage.server.inject({ answer: () => 'silence' });
    const started = stage.startAgent();
    await untilHolds(async () => expect(await scrapes.value('fairlead_ready')).toBe(0), 60_000);
    states['not ready'] = [await scrapes.take()];
    stage.server.mend();
    stage.server.resetAll();
    await started;
    await above('fairlead_ready', 0);
    await above('fairlead_watch_last_activity_timestamp_seconds{kind="Service"}', 1.7e9);
    states['nothing heard'] = [await scrapes.take()];
    heardAtMs = Date.now();
  });

  test('two Services with one address: an Event for the second', async () => {
    // Of two Services created in the same second, the name decides.
    await conflict('a-owner');
    await conflict('b-late');
    await untilHolds(async () => {
      const told = (await events()).map(({ reason, regarding }) => [reason, regarding.name]);
      expect(told).toContainEqual(['InvalidService', 'b-late']);
    });
  });

  test('Events that are rejected, and more than the queue holds', async () => {
    stage.server.inject({
      answer: (asked) => (isEvents(asked) ? refusal(403, 'Forbidden') : undefined),
    });
    await conflict('refused');
    await above('fairlead_event_failures_total', 0);
    stage.server.inject({ answer: (asked) => (isEvents(asked) ? 'silence' : undefined) });
    for (let k = 0; k < CONFLICTS; k++) await conflict(`more-${k}`);
    await above('fairlead_events_dropped_total', 0);
    stage.server.mend();
  });

  test('every documented metric has changed', () => {
    expect(scrapes.unmoved(API_SERVER_METRICS)).toEqual([]);
  });

  test.skipIf(promql?.isReady !== true)(
    'the alerts of this fault fire, and no others',
    async () => {
      if (promql?.isReady !== true) return;
      const firing = await evaluateAlerts(promql.program, states, heardAtMs);
      expect(firing['not ready']).toEqual({ FairleadNotReady: 300 });
      // The scrape is frozen: no further activity. It may already be some seconds old.
      expect(Object.keys(firing['nothing heard'] ?? {})).toEqual(['FairleadWatchSilent']);
      expect(firing['nothing heard']?.['FairleadWatchSilent']).toBeGreaterThan(240);
    },
  );
});
