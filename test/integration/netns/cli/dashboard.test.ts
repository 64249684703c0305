// SPDX-License-Identifier: Apache-2.0
// Every query of the dashboard has an answer on scrapes of a live agent, by Prometheus' own engine.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { service, target } from '../../../support/builders.ts';
import { Scrapes } from '../../../support/http/scrape.ts';
import { startOneNode } from '../../../support/node.ts';
import { countSeries, preparePromql } from '../../../support/programs/promql.ts';
import { untilHolds } from '../../../support/until.ts';

const FILE = new URL('../../../../deploy/helm/fairlead/files/dashboard.json', import.meta.url);
const { panels } = JSON.parse(readFileSync(FILE, 'utf8')) as {
  readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
};
/** As Grafana fills in its variables for pages that are 15 s apart. */
const QUERIES = panels.flatMap(({ targets = [] }) =>
  targets.map(({ expr }) =>
    expr.replaceAll('$instance', '.*').replaceAll('$__rate_interval', '60s'),
  ),
);
const promql = await preparePromql();
let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(['near']);
  node.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
  node.manifests.put('none.yaml', service('none', { n: 11 }, []));
  await node.startAgent(['--metrics-top-services', '5']);
});
afterAll(() => node?.remove());

test.skipIf(!promql.isReady)('every query has an answer', async () => {
  if (!promql.isReady) return;
  const scrapes = new Scrapes(node.instance.sandbox);
  const pages = [await scrapes.take()];
  node.manifests.put('later.yaml', service('later', { n: 12 }, node.servers));
  await node.programmed();
  await node.client().burst(target({ n: 10 }), { connections: 20 });
  await node.client().burst(target({ n: 11 }), { connections: 5 });
  await untilHolds(async () => {
    const page = await scrapes.take();
    expect(page).toMatch(/^fairlead_service_connections_total\{.*service="web".*\} 20$/m);
    pages[1] = page;
  });
  const counts = await countSeries(promql.program, QUERIES, [pages[0]!, pages[1]!, pages[1]!]);
  expect(Object.entries(counts).filter(([, count]) => count === 0)).toEqual([]);
  expect(Object.keys(counts)).toHaveLength(new Set(QUERIES).size);
});
