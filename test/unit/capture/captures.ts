// SPDX-License-Identifier: Apache-2.0
// Captures of stories, as a node would have written them.
import { createHmac } from 'node:crypto';
import type { Capture, CapturedObject } from '../../../src/capture/format.ts';
import { plainOf } from '../../../src/capture/plain.ts';
import { BPF } from '../../../src/engines/capabilities.ts';
import type { ObjectChange } from '../../../src/model/types.ts';
import { createPlanner } from '../../../src/plan/planner.ts';
import type { Plan, PlanSettings } from '../../../src/plan/types.ts';
import { STORIES } from '../../conformance/conformance.ts';
import { readStories, type Story } from '../../conformance/story.ts';

export const allStories = (): readonly Story[] => STORIES.flatMap((file) => readStories(file));

/** Those of the end of the story. */
export function objectsOf({ steps }: Pick<Story, 'steps'>): readonly CapturedObject[] {
  const objects = new Map<string, CapturedObject>();
  for (const change of steps.flatMap(({ changes }) => changes)) {
    const key = JSON.stringify(change.ref);
    if (change.type === 'put') objects.set(key, { ref: change.ref, object: change.object });
    else objects.delete(key);
  }
  return [...objects.values()];
}

export const planFrom = (
  settings: PlanSettings,
  objects: readonly CapturedObject[] | undefined,
): Plan =>
  createPlanner(settings).apply(
    (objects ?? []).map((one): ObjectChange => ({ type: 'put', ...one })),
  );

export function captureOf(
  { settings, steps }: Pick<Story, 'settings' | 'steps'>,
  more: Partial<Capture> = {},
): Capture {
  const objects = objectsOf({ steps });
  return {
    ...{ apiVersion: 'fairlead.io/v1', kind: 'Capture', format: 1 },
    takenAt: '2026-11-29T08:00:00.000Z',
    ...{ version: '0.1.0', kernel: '6.18.5', node: settings.nodeName, isRedacted: false },
    settings: { plan: settings, engine: 'bpf', flags: { 'hostname-override': settings.nodeName } },
    objects,
    plan: JSON.parse(JSON.stringify(plainOf(planFrom(settings, objects)))),
    planOf: 'agent',
    ...{ dataplanes: [BPF], addresses: ['127.0.0.1', '192.0.2.1', '::1'] },
    ...{ rules: [], network: [], unread: [] },
    ...more,
  };
}

export const digestWith =
  (secret: string) =>
  (text: string): Uint8Array =>
    createHmac('sha256', secret).update(text).digest();

/** In any order, without words for people, and without what views alone read. */
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) {
    const all = value.map((one) => [JSON.stringify(canonical(one)), canonical(one)] as const);
    return all.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !['labels', 'reason', 'instead', 'resourceVersion'].includes(key))
      .map(([key, one]) => [key, canonical(one)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}
