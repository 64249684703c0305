// SPDX-License-Identifier: Apache-2.0
// The history as tables. Pure.
import type { Latency, Quantiles } from '../../history/latency.ts';
import type {
  ApiEvent,
  ListDiff,
  PortDiff,
  PortState,
  ServiceDiff,
} from '../../history/records.ts';
import type { Entry, Held } from '../../history/timeline.ts';
import type { Column } from '../view/columns.ts';

export const ENTRY_COLUMNS: readonly Column<Entry>[] = [
  { title: 'TIME', cell: ({ at }) => at },
  { title: 'SERVICE', cell: ({ service = '' }) => service },
  { title: 'WHAT', cell: ({ what, isOfStart }) => (isOfStart ? 'at the start' : what) },
  { title: 'CHANGE', cell: changeText },
  { title: 'WHY', cell: reasonTexts },
  { title: 'TOOK', cell: tookText },
];

export interface HeldPort extends PortState {
  readonly service: string;
  readonly port: string;
  readonly since?: Entry;
}

export const heldPorts = (services: ReadonlyMap<string, Held>): readonly HeldPort[] =>
  [...services]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([service, { state, since }]) =>
      Object.entries(state).map(([port, ports]) => ({
        ...{ service, port, ...ports },
        ...(since && { since }),
      })),
    );

export const HELD_COLUMNS: readonly Column<HeldPort>[] = [
  { title: 'SERVICE', cell: ({ service }) => service },
  { title: 'PORT', cell: ({ port }) => port },
  { title: 'FRONTENDS', cell: ({ f }) => f },
  { title: 'BACKENDS', cell: ({ c }) => c },
  { title: 'OF-THIS-NODE', isRare: true, cell: ({ l = [] }) => l },
  { title: 'CHOSEN-BY', isRare: true, cell: ({ o = '' }) => o },
  { title: 'SINCE', cell: ({ since }) => since?.at ?? 'before' },
  { title: 'CHANGE', isRare: true, cell: ({ since }) => (since ? changeText(since) : '') },
  { title: 'WHY', isRare: true, cell: ({ since }) => (since ? reasonTexts(since) : '') },
];

export const LATENCY_COLUMNS: readonly Column<Latency>[] = [
  { title: 'SERVICE', cell: ({ service }) => service },
  { title: 'CHANGES', cell: ({ fromEvent }) => String(fromEvent?.count ?? 0) },
  { title: 'EVENT-P50', cell: ({ fromEvent }) => msText(fromEvent?.p50Ms) },
  { title: 'EVENT-P99', cell: ({ fromEvent }) => msText(fromEvent?.p99Ms) },
  { title: 'TRIGGER-P50', cell: ({ fromTrigger }) => secondsText(fromTrigger, 'p50Ms') },
  { title: 'TRIGGER-P99', cell: ({ fromTrigger }) => secondsText(fromTrigger, 'p99Ms') },
];

const msText = (ms: number | undefined): string => (ms === undefined ? '' : `${ms.toFixed(1)}ms`);

/** The annotation has whole seconds. */
const secondsText = (all: Quantiles | undefined, which: 'p50Ms' | 'p99Ms'): string =>
  all === undefined ? '' : `${(all[which] / 1000).toFixed(1)}s`;

export function changeText({ difference, text, what }: Entry): string | readonly string[] {
  if (what !== 'change') return text ?? '';
  return diffTexts(difference ?? null);
}

function diffTexts(diff: ServiceDiff): readonly string[] {
  if (diff === null) return ['removed'];
  const ports = Object.entries(diff);
  const texts = ports.flatMap(([port, change]) =>
    portTexts(change).map((text) => (ports.length === 1 ? text : `${port}: ${text}`)),
  );
  return texts.length === 0 ? ['backends are the same'] : texts;
}

function portTexts(change: PortDiff | null): readonly string[] {
  if (change === null) return ['port removed'];
  const { f, c, l, o } = change;
  return [
    ...listTexts(f, ''),
    ...listTexts(c, ''),
    // Those of this node are mostly among those of all nodes.
    ...(c === undefined ? listTexts(l, ' (of this node)') : []),
    ...(o === undefined ? [] : [o === '' ? 'chosen at random' : o]),
  ];
}

const listTexts = (diff: ListDiff | undefined, what: string): readonly string[] =>
  diff === undefined
    ? []
    : [...diff[0].map((text) => `+${text}${what}`), ...diff[1].map((text) => `-${text}${what}`)];

export function reasonTexts({ events = [], moreEvents = 0, isOfStart }: Entry): readonly string[] {
  const texts = events.map(eventText);
  const more = moreEvents === 0 ? [] : [`${moreEvents} more events`];
  return isOfStart ? ['no agent ran'] : [...texts, ...more];
}

function eventText({ kind, name, rv, removed, at, trigger }: ApiEvent): string {
  return [
    `${kind} ${name}`,
    removed ? 'removed' : '',
    rv === undefined ? '' : `resourceVersion ${rv}`,
    trigger === undefined ? '' : `triggered ${timeOf(trigger)}`,
    `received ${timeOf(at)}`,
  ]
    .filter((text) => text !== '')
    .join(' ');
}

const timeOf = (ms: number): string => new Date(ms).toISOString().slice(11, 23);

/** From the first event to the kernel. */
function tookText({ events = [] }: Entry): string {
  const all = events.flatMap(({ took }) => took ?? []);
  return all.length === 0 ? '' : msText(Math.max(...all));
}
