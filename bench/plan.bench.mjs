// SPDX-License-Identifier: Apache-2.0
// How long the meaning of Services takes to compute: a full build of 10,000 Services with 10 endpoints each,
// and one endpoint change on top of it. Needs `npm run build:ts`. `--json` prints one line.
import { differences } from '../build/js/lib/persistent/map.js';
import { createPlanner } from '../build/js/plan/planner.js';
import { ENDPOINTS, SETTINGS, serviceChange, sliceChange } from './plan-objects.mjs';

const SERVICES = 10_000;
const WARMUPS = 2;
const FULL_RUNS = 7;
const CHANGES = 2_000;

/** CPU milliseconds, so that neighbours on the machine do not count. @param {() => void} work */
function cpuMs(work) {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** @param {readonly number[]} values */
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

const all = Array.from({ length: SERVICES }, (_, service) => [
  serviceChange(service),
  sliceChange(service, 0),
]).flat();

const fullMs = [];
for (let run = 0; run < WARMUPS + FULL_RUNS; run += 1) {
  const spent = cpuMs(() => createPlanner(SETTINGS).apply(all));
  if (run >= WARMUPS) fullMs.push(spent);
}

const planner = createPlanner(SETTINGS);
planner.apply(all);
const changes = Array.from({ length: CHANGES }, (_, at) => [
  sliceChange((at * 7919) % SERVICES, 1 + (at % 9)),
]);
let changed = 0;
const batchMs = cpuMs(() => {
  for (const change of changes) {
    const before = planner.current().services;
    changed += differences(before, planner.apply(change).services).length;
  }
});
if (changed !== CHANGES) throw new Error(`${changed} of ${CHANGES} changes were seen`);

const fullBuildMs = median(fullMs);
const oneChangeMs = batchMs / CHANGES;
const figures = {
  ratio: fullBuildMs / oneChangeMs,
  fullBuildMs,
  oneChangeMs,
  services: SERVICES,
  endpointsPerService: ENDPOINTS,
  fullRunsMs: fullMs,
  changes: CHANGES,
};

if (process.argv.includes('--json')) {
  console.log(JSON.stringify(figures));
} else {
  console.log(
    `full build of ${SERVICES} Services x ${ENDPOINTS} endpoints: ${fullBuildMs.toFixed(1)} ms CPU (median of ${FULL_RUNS})`,
  );
  console.log(`one endpoint change: ${oneChangeMs.toFixed(4)} ms CPU (mean of ${CHANGES})`);
  console.log(`ratio: ${figures.ratio.toFixed(0)}`);
}
