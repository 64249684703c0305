// SPDX-License-Identifier: Apache-2.0
// Bad values of balancing and forwarding, from the manifest to the client: each is named by object, field and reason in `status` and
// `validate`, the default serves on, and no other Service is touched.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import type { Manifest } from '../../../../tools/lab/manifests.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const GOOD = { n: 10 };
const BAD = { n: 20 };
const PODS = ['web-1', 'web-2'];
let node: Awaited<ReturnType<typeof startOneNode>>;
let before: readonly ServiceRow[];

beforeAll(async () => {
  node = await startOneNode(PODS);
  node.manifests.put('good.yaml', service('good', GOOD, node.servers));
  await node.startAgent();
  await node.programmed();
  before = await rowsOf('good');
});
afterEach(async () => {
  node.manifests.remove('bad.yaml');
  await node.programmed();
  expect((await node.status()).problems).toEqual([]);
});
afterAll(() => node?.remove());

async function rowsOf(name: string): Promise<readonly ServiceRow[]> {
  const args = ['services', '-o', 'json', '--run-dir', node.instance.runDir];
  const { stdout } = await runCommand(node.instance, args);
  const { items } = JSON.parse(stdout) as { items: ServiceRow[] };
  return items.filter((row) => row.name === name);
}

/** The Service and its slices, of which one kind has these annotations. */
function annotated(kind: string, annotations: Readonly<Record<string, string>>): Manifest[] {
  return service('bad', BAD, node.servers).map((object) =>
    object['kind'] === kind && (kind === 'Service' || object['addressType'] === 'IPv4')
      ? { ...object, metadata: { ...(object['metadata'] as object), annotations } }
      : object,
  );
}

const MAGLEV = { 'fairlead.io/algorithm': 'maglev' };

test.each([
  ['Service', 'algorithm', 'fastest', {}, /"fastest"/],
  ['Service', 'algorithm', '', {}, /must be one of/],
  ['Service', 'forwarding', 'ipvs', {}, /"ipvs"/],
  ['Service', 'table-size', '1000', MAGLEV, /must be a prime, and 1000 is none/],
  ['Service', 'table-size', '241', MAGLEV, /from 251 to 131071/],
  ['Service', 'table-size', '131101', MAGLEV, /from 251 to 131071/],
  ['Service', 'table-size', 'large', MAGLEV, /must be a number, not "large"/],
  ['EndpointSlice', 'weights', 'heavy', {}, /"heavy" must be/],
  ['EndpointSlice', 'weights', '10.9.9.9=3', {}, /10\.9\.9\.9 is no endpoint/],
  ['EndpointSlice', 'weights', '*=-1', {}, /"\*=-1" must be/],
  ['EndpointSlice', 'weights', '*=65536', {}, /"\*=65536" must be/],
  ['EndpointSlice', 'weights', '*=1 *=2', {}, /twice/],
])('%s %s: %j', async (kind, what, value, others, reason) => {
  const field = `metadata.annotations["fairlead.io/${what}"]`;
  node.manifests.put('bad.yaml', annotated(kind, { ...others, [`fairlead.io/${what}`]: value }));
  await node.programmed();
  await untilHolds(async () =>
    expect((await node.status()).problems).toMatchObject([
      { object: { kind, namespace: 'default' }, field, reason: expect.stringMatching(reason) },
    ]),
  );
  const { hits, failures } = await node.client().burst(target(BAD), { connections: 40 });
  expect(failures).toEqual({});
  expect(Object.keys(hits).sort()).toEqual(PODS);
  expect(await rowsOf('good')).toEqual(before);
  const validate = ['validate', node.manifests.path];
  const said = await runCommand(node.instance, validate).catch((error: Error) => error);
  const text = said instanceof Error ? said.message : `${said.stdout}${said.stderr}`;
  expect(text).toContain(field);
  expect(text).toMatch(reason);
});
