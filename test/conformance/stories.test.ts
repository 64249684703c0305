// SPDX-License-Identifier: Apache-2.0
// Every story in several orders of arrival: the result for a client must not depend on the order of the objects of
// a step, on how many arrive at once, or on objects that were deleted and added again.
import { describe, expect, it } from 'vitest';
import type { ObjectChange } from '../../src/model/types.ts';
import { staleFlows, staleScope } from '../../src/plan/conntrack/stale-flows.ts';
import { explain } from '../../src/plan/explain/explain.ts';
import type { Plan } from '../../src/plan/types.ts';
import { buildAll, type NamedObject } from '../support/plan/build-all.ts';
import type { PlanChange } from '../support/plan/planner.ts';
import { createPlanner, type TellingPlanner } from '../support/plan/planner.ts';
import { changesIn } from '../unit/plan/support.ts';
import { STORIES } from './conformance.ts';
import { expectationOf, flowOf, packetOf, readStories, type Step, type Story } from './story.ts';

type Order = (changes: readonly ObjectChange[]) => readonly (readonly ObjectChange[])[];

const oneByOne = (changes: readonly ObjectChange[]) => changes.map((change) => [change]);

/** A shuffle that is the same in every run. */
function shuffled(changes: readonly ObjectChange[], seed: number): readonly ObjectChange[] {
  let state = seed;
  const list = [...changes];
  for (let last = list.length - 1; last > 0; last -= 1) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    const other = state % (last + 1);
    [list[last], list[other]] = [list[other]!, list[last]!];
  }
  return list;
}

const removed = ({ ref }: ObjectChange): ObjectChange => ({ type: 'remove', ref });

const ORDERS: Readonly<Record<string, Order>> = {
  'one after the other': oneByOne,
  'in reverse': (changes) => oneByOne(changes.toReversed()),
  'in one batch': (changes) => [changes],
  'in one batch, shuffled': (changes) => [shuffled(changes, 11)],
  'shuffled (1)': (changes) => oneByOne(shuffled(changes, 1)),
  'shuffled (2)': (changes) => oneByOne(shuffled(changes, 2)),
  'shuffled (3)': (changes) => oneByOne(shuffled(changes, 3)),
  'deleted and added again': (changes) => [
    changes,
    ...oneByOne(changes.map(removed)),
    ...oneByOne(changes),
  ],
  twice: (changes) => [changes, changes],
};

const keyOf = ({ ref }: ObjectChange): string => `${ref.kind} ${ref.namespace}/${ref.name}`;

function keep(objects: Map<string, NamedObject>, changes: readonly ObjectChange[]): void {
  for (const change of changes) {
    if (change.type === 'put') objects.set(keyOf(change), change);
    else objects.delete(keyOf(change));
  }
}

function checkPlan(step: Step, plan: Plan): void {
  for (const line of step.expect ?? []) {
    const { packet, ...expected } = expectationOf(line);
    const { steps, ...met } = explain(plan, packet);
    expect(met, `${line}\n${JSON.stringify(steps, undefined, 1)}`).toMatchObject(expected);
  }
  for (const { from, to, rule, result } of step['steps-say'] ?? []) {
    const { steps } = explain(plan, packetOf(from, to));
    expect(steps).toContainEqual({ rule, result, reason: expect.any(String) });
  }
  if (step.rejects !== undefined) {
    const said = plan.rejections.map(
      ({ object, field }) => `${object.kind} ${object.namespace}/${object.name} ${field}`,
    );
    expect(said).toEqual(step.rejects);
  }
  const web = plan.services.get('default/web');
  if (step.health !== undefined) expect(web?.healthCheck ?? null).toEqual(step.health);
  for (const [key, seconds] of Object.entries(step.affinity ?? {})) {
    expect(web?.ports.find((port) => port.key === key)?.affinityTimeoutSeconds).toBe(seconds);
  }
  if (step.services !== undefined) expect(plan.services.size).toBe(step.services);
}

function checkStale(step: Step, deltas: readonly PlanChange[]): void {
  if (step.stale === undefined) return;
  const flows = (step.flows ?? []).map(flowOf);
  const local = new Set(['192.0.2.11', '10.1.1.1', '127.0.0.1']);
  const stale = new Set(
    deltas
      .flatMap((delta) => staleFlows(staleScope(changesIn(delta)), flows, local))
      .map(({ line }) => line),
  );
  expect(flows.map(({ line }) => line).filter((line) => stale.has(line))).toEqual(step.stale);
}

function play(story: Story, order: Order, isUninterrupted: boolean): void {
  const planner: TellingPlanner = createPlanner(story.settings);
  const objects = new Map<string, NamedObject>();
  for (const step of story.steps) {
    const deltas = order(step.changes).map((batch) => planner.apply(batch));
    keep(objects, step.changes);
    const plan = planner.current();
    expect(plan).toEqual(buildAll([...objects.values()], story.settings));
    checkPlan(step, plan);
    if (isUninterrupted) checkStale(step, deltas);
  }
}

for (const file of STORIES) {
  describe(file, () => {
    for (const story of readStories(file)) {
      it(story.name, () => {
        for (const [name, order] of Object.entries(ORDERS)) {
          try {
            play(story, order, name !== 'deleted and added again');
          } catch (error) {
            if (error instanceof Error) error.message = `objects ${name}: ${error.message}`;
            throw error;
          }
        }
      });
    }
  });
}
