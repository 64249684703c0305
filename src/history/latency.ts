// SPDX-License-Identifier: Apache-2.0
// How long changes took to reach the kernel, per Service. Pure.
import type { ServiceKey } from '../plan/types.ts';
import type { Entry } from './timeline.ts';

export interface Quantiles {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Latency {
  readonly service: ServiceKey;
  /** From the change in the API, by the annotation of its EndpointSlice: clocks of two nodes, whole seconds. */
  readonly fromTrigger?: Quantiles;
  /** From the moment at which the agent had received it. */
  readonly fromEvent?: Quantiles;
}

export function latenciesOf(entries: readonly Entry[]): readonly Latency[] {
  const services = new Map<ServiceKey, { trigger: number[]; event: number[] }>();
  for (const { at, service, events = [] } of entries) {
    if (service === undefined) continue;
    const own = services.get(service) ?? { trigger: [], event: [] };
    for (const { trigger, took } of events) {
      if (trigger !== undefined) own.trigger.push(Math.max(0, Date.parse(at) - trigger));
      if (took !== undefined) own.event.push(took);
    }
    services.set(service, own);
  }
  return [...services]
    .filter(([, { trigger, event }]) => trigger.length + event.length > 0)
    .map(([service, { trigger, event }]) => ({
      service,
      ...(trigger.length > 0 && { fromTrigger: quantilesOf(trigger) }),
      ...(event.length > 0 && { fromEvent: quantilesOf(event) }),
    }))
    .sort((a, b) => (a.service < b.service ? -1 : 1));
}

function quantilesOf(values: number[]): Quantiles {
  values.sort((a, b) => a - b);
  const at = (part: number): number => values[Math.ceil(values.length * part) - 1] ?? 0;
  return { count: values.length, p50Ms: at(0.5), p99Ms: at(0.99) };
}
