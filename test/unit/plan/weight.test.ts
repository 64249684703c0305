// SPDX-License-Identifier: Apache-2.0
// What a planner and its plan weigh: the agent runs on every node, and a large cluster's plan is most of what it holds.
import { expect, it } from 'vitest';
import type { ObjectChange } from '../../../src/model/types.ts';
import { createPlanner, type Planner } from '../../../src/plan/planner.ts';
import { heapBytes } from '../../support/heap.ts';
import { ready, SETTINGS, service, slice } from './support.ts';

const SERVICES = 2_000;
const ENDPOINTS = 10;
const MOST_BYTES_PER_SERVICE = 2_300;

/** As they come from a source: no text shared between objects. */
const received = (change: ObjectChange): ObjectChange => JSON.parse(JSON.stringify(change));

function changesOf(at: number): readonly ObjectChange[] {
  const clusterIP = `10.96.${at >> 8}.${at & 255}`;
  const endpoints = Array.from({ length: ENDPOINTS }, (_, index) =>
    ready(`10.1.${at >> 4}.${(at & 15) * ENDPOINTS + index}`, `n${index}`),
  );
  return [
    received(service(`web-${at}`, 0, { clusterIP, clusterIPs: [clusterIP] })),
    received(slice(`web-${at}`, endpoints)),
  ];
}

function plannerOf(services: number): Planner {
  const planner = createPlanner(SETTINGS);
  for (let at = 0; at < services; at += 1) planner.apply(changesOf(at));
  return planner;
}

/** Bytes of a Service in a planner and its plan. */
function weigh(): number {
  const before = heapBytes();
  const planner = plannerOf(SERVICES);
  const bytes = (heapBytes() - before) / SERVICES;
  expect(planner.current().services.size).toBe(SERVICES);
  return bytes;
}

it(`a Service with ${ENDPOINTS} endpoints weighs at most ${MOST_BYTES_PER_SERVICE} bytes`, () => {
  // The median: V8 compiles into the same heap, and may free an earlier planner late.
  const [, bytes = 0] = [weigh(), weigh(), weigh()].sort((a, b) => a - b);
  expect(bytes).toBeLessThan(MOST_BYTES_PER_SERVICE);
  expect(bytes).toBeGreaterThan(MOST_BYTES_PER_SERVICE / 2);
});
