// SPDX-License-Identifier: Apache-2.0
// The agent's part of `fairlead capture`: its plan, what it has programmed, and its latest log.
import type { CapturedPart } from '../capture/format.ts';
import { plainOf } from '../capture/plain.ts';
import type { Snapshot } from '../engines/snapshot.ts';
import { recentLog } from '../log.ts';
import type { Plan } from '../plan/types.ts';
import type { KubeEvent } from '../server/events/event.ts';
import type { EventSender } from '../server/events/recorder.ts';

const MOST_EVENTS = 100;
/** The latest of this process, each as it was sent last. */
const events = new Map<string, KubeEvent>();

/** The same sender, whose Events are in a capture, whether they arrive or not. */
export const remembering = (sender: EventSender): EventSender => ({
  post: (event) => {
    const { name } = event.metadata;
    events.delete(name);
    events.set(name, event);
    const [oldest] = events.keys();
    if (events.size > MOST_EVENTS && oldest !== undefined) events.delete(oldest);
    return sender.post(event);
  },
});

/** A step for each row: a plan of 250,000 endpoints is no work for one turn of the event loop. */
export function* capturedInSteps(
  plan: Plan | undefined,
  { frontends, backends }: Snapshot,
  rest: Readonly<Record<'dataplanes' | 'addresses' | 'findings', unknown>>,
): Generator<void, readonly CapturedPart[]> {
  const rows: CapturedPart[] = [
    ['dataplanes', rest.dataplanes],
    ['addresses', rest.addresses],
    ['findings', rest.findings],
    ['log', recentLog()],
    ['events', [...events.values()]],
  ];
  if (plan !== undefined) {
    const { services, ...context } = plan;
    rows.push(['plan', plainOf(context)]);
    for (const service of services.values()) {
      rows.push(['service', plainOf(service)]);
      yield;
    }
  }
  for (const frontend of frontends) rows.push(['frontend', frontend]);
  for (const backend of backends) rows.push(['backend', backend]);
  return rows;
}
