// SPDX-License-Identifier: Apache-2.0
// What a renderer keeps of a cluster: names of chains, and rules of the chains that all Services share.
import { expect, it } from 'vitest';
import { createRenderer } from '../../../../../src/engines/iptables/rows/render.ts';
import { heapBytes } from '../../../../support/heap.ts';
import { DEFAULTS } from '../../../../support/iptables/story-rulesets.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';
import { ready, SETTINGS, service, slice } from '../../../plan/support.ts';

const SERVICES = 2_000;
const ENDPOINTS = 10;
const MOST_BYTES_PER_SERVICE = 4_200;

function plannerOf(services: number) {
  const planner = createPlanner(SETTINGS);
  for (let at = 0; at < services; at += 1) {
    const clusterIP = `10.96.${at >> 8}.${at & 255}`;
    const endpoints = Array.from({ length: ENDPOINTS }, (_, index) =>
      ready(`10.1.${at >> 4}.${(at & 15) * ENDPOINTS + index}`, `n${index}`),
    );
    planner.apply([
      service(`web-${at}`, 0, { clusterIP, clusterIPs: [clusterIP] }),
      slice(`web-${at}`, endpoints),
    ]);
  }
  return planner;
}

it(`a Service with ${ENDPOINTS} endpoints weighs at most ${MOST_BYTES_PER_SERVICE} bytes`, () => {
  // The first run compiles.
  createRenderer(DEFAULTS).render(plannerOf(200).current());
  const plan = plannerOf(SERVICES).current();
  const renderer = createRenderer(DEFAULTS);
  const before = heapBytes();
  const [ipv4] = renderer.render(plan);
  const bytes = (heapBytes() - before) / SERVICES;
  const nat = ipv4?.tables.find(({ name }) => name === 'nat');
  expect(nat?.chains.length).toBeGreaterThan(SERVICES * (ENDPOINTS + 1));
  expect(bytes).toBeLessThan(MOST_BYTES_PER_SERVICE);
});
