// SPDX-License-Identifier: Apache-2.0
// The maps of Services as the agent fills them.
import { SETTINGS, serviceChange, sliceChange } from '../plan-objects.mjs';

const load = (path) => import(new URL(`../../build/js/${path}`, import.meta.url));
const { createTableSync } = await load('engines/bpf/state/table-sync.js');
const { kernelTables } = await load('engines/bpf/kernel/maps/kernel.js');
const { createPlanner } = await load('plan/planner.js');
const { waitGracePeriod } = await load('sys/native.js');

/** @param {(name: string) => unknown} map @param {number} count */
export async function fillServices(map, count) {
  const planner = createPlanner(SETTINGS);
  const changes = Array.from({ length: count }, (_, n) => [serviceChange(n), sliceChange(n, 0)]);
  planner.apply(changes.flat());
  const plan = planner.current();
  const sync = createTableSync(kernelTables(map), waitGracePeriod);
  const { failed } = sync.apply(plan, sync.allServices(plan));
  if (failed.length > 0) throw new Error(`not programmed: ${failed[0].reason}`);
}
