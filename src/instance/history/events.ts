// SPDX-License-Identifier: Apache-2.0
// Which changes of objects a Service waits for: kept from their arrival until the plan that has them is programmed. Pure.
import type { ApiEvent } from '../../history/records.ts';
import { isRecord, recordOrEmpty } from '../../lib/json.ts';
import { triggerTimeOf } from '../../model/endpoints/trigger-time.ts';
import { SERVICE_NAME_LABEL } from '../../model/labels.ts';
import type { ObjectChange } from '../../model/types.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../plan/types.ts';

/** Of one Service between two syncs: more are counted. */
const PER_SERVICE = 16;
/** Of all Services: a source that delivers everything anew may not fill the memory. */
const ALL = 20_000;

interface Waiting {
  readonly event: ApiEvent;
  readonly upMs: number;
  /** What the plan had for the Service once this was in it; absent: it is not planned yet. */
  planned?: { readonly plan: ServicePlan | undefined };
}

export interface Caused {
  readonly events: readonly ApiEvent[];
  readonly more: number;
}

export interface EventBook {
  arrived(changes: readonly ObjectChange[], nowMs: number, upMs: number): void;
  /** The plan has all that has arrived. */
  planned(plan: Plan, programmed: ReadonlyMap<ServiceKey, ServicePlan>): void;
  /** What made the Service so. */
  take(key: ServiceKey, after: ServicePlan | undefined, upMs: number): Caused;
  /** Nothing is waiting any more. */
  clear(): void;
}

export function createEventBook(): EventBook {
  /** By Service; what concerns all of them, or a slice that is gone and does not say whose it was, by ''. */
  const waiting = new Map<ServiceKey, { list: Waiting[]; more: number }>();
  let count = 0;

  const note = (key: ServiceKey, one: Waiting): void => {
    const book = waiting.get(key) ?? { list: [], more: 0 };
    if (book.list.length >= PER_SERVICE || count >= ALL) book.more += 1;
    else {
      book.list.push(one);
      count += 1;
    }
    waiting.set(key, book);
  };

  const drop = (key: ServiceKey): void => {
    count -= waiting.get(key)?.list.length ?? 0;
    waiting.delete(key);
  };

  return {
    arrived(changes, nowMs, upMs) {
      for (const change of changes)
        note(serviceOf(change), { event: eventOf(change, nowMs), upMs });
    },
    planned(plan, programmed) {
      for (const [key, { list }] of waiting) {
        if (key === '') {
          for (const one of list) one.planned ??= { plan: undefined };
          continue;
        }
        const now = plan.services.get(key);
        // Nothing has come of it, and nothing is on its way.
        if (now === programmed.get(key) && list.every(isFresh)) drop(key);
        else for (const one of list) one.planned ??= { plan: now };
      }
    },
    take(key, after, upMs) {
      const book = waiting.get(key);
      const { list = [], more = 0 } = book ?? {};
      const last = list.findLastIndex(
        ({ planned }) => planned !== undefined && planned.plan === after,
      );
      // A plan between two syncs may be none that was programmed: all that is planned is in what was.
      const taken = last < 0 ? list.filter((one) => !isFresh(one)) : list.slice(0, last + 1);
      if (book !== undefined) {
        count -= taken.length;
        book.list = list.slice(taken.length);
        book.more = 0;
        if (book.list.length === 0) waiting.delete(key);
      }
      const wide = (waiting.get('')?.list ?? []).filter(
        (one) => !isFresh(one) && concerns(one.event, key),
      );
      const all = [
        ...taken,
        ...(taken.length === 0 ? wide : wide.filter(({ event }) => event.removed)),
      ];
      return { events: all.map((one) => withTime(one, upMs)), more };
    },
    clear() {
      waiting.clear();
      count = 0;
    },
  };
}

const isFresh = ({ planned }: Waiting): boolean => planned === undefined;

const withTime = ({ event, upMs }: Waiting, nowMs: number): ApiEvent => ({
  ...event,
  took: Math.round((nowMs - upMs) * 10) / 10,
});

/** '': it says none. */
function serviceOf(change: ObjectChange): ServiceKey {
  const { kind, namespace, name } = change.ref;
  if (kind === 'Service') return `${namespace}/${name}`;
  if (kind !== 'EndpointSlice' || change.type === 'remove') return '';
  const label = recordOrEmpty(metadataOf(change)['labels'])[SERVICE_NAME_LABEL];
  return typeof label === 'string' ? `${namespace}/${label}` : '';
}

const metadataOf = (change: ObjectChange): Readonly<Record<string, unknown>> =>
  change.type === 'put' && isRecord(change.object)
    ? recordOrEmpty(change.object['metadata'])
    : recordOrEmpty(undefined);

function eventOf(change: ObjectChange, at: number): ApiEvent {
  const { kind, namespace, name } = change.ref;
  const version = metadataOf(change)['resourceVersion'];
  const trigger =
    change.type === 'put' && kind === 'EndpointSlice' ? triggerTimeOf(change.object) : undefined;
  return {
    ...{ kind, name: namespace === '' ? name : `${namespace}/${name}` },
    ...(typeof version === 'string' && { rv: version }),
    ...(change.type === 'remove' && { removed: true }),
    at,
    ...(trigger && { trigger: trigger.atMs }),
  };
}

/** A removed slice is named after its Service; a Node or a ServiceCIDR concerns all. */
const concerns = ({ kind, name }: ApiEvent, key: ServiceKey): boolean =>
  kind === 'EndpointSlice' ? name.startsWith(`${key}-`) || name === key : true;
