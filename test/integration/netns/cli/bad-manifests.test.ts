// SPDX-License-Identifier: Apache-2.0
// Invalid manifests: each is reported with file, line and reason, and all others are still served.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Problem } from '../../../../src/model/problem.ts';
import { LARGEST_FILE_BYTES } from '../../../../src/source/manifests/refresh.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until, untilHolds } from '../../../support/until.ts';

const web = { n: 10 };
let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(['web-1']);
  node.manifests.put('good.yaml', service('web', web, node.servers));
  await node.startAgent();
});
afterEach(async () => {
  node.manifests.remove('bad.yaml');
  await node.programmed();
  expect((await node.status()).problems).toEqual([]);
});
afterAll(() => node?.remove());

/** In the format of `fairlead status -o json`, with the file name without its folder. */
async function problems(): Promise<Problem[]> {
  const args = ['status', '-o', 'json', '--run-dir', node.instance.runDir];
  const { stdout } = await runCommand(node.instance, args);
  const status: { problems: Problem[] } = JSON.parse(stdout);
  return status.problems.map((problem) => ({
    ...problem,
    file: problem.file?.replace(`${node.manifests.path}/`, ''),
  }));
}

const head = (name: string, spec: string): string => `apiVersion: v1
kind: Service
metadata:
  name: ${name}
  namespace: default
spec:
${spec}`;

test.each([
  {
    name: 'a port of 0',
    text: head('zero', '  clusterIP: 10.96.0.50\n  ports:\n  - port: 0\n'),
    problem: { line: 9, field: 'spec.ports[0].port', reason: expect.stringMatching(/65535/) },
  },
  {
    name: 'a port of 70000',
    text: head('big', '  clusterIP: 10.96.0.50\n  ports:\n  - port: 70000\n'),
    problem: { line: 9, field: 'spec.ports[0].port', reason: expect.stringMatching(/70000/) },
  },
  {
    name: 'a port that is a string',
    text: head('text', '  clusterIP: 10.96.0.50\n  ports:\n  - port: eighty\n'),
    problem: { line: 9, field: 'spec.ports[0].port', reason: expect.stringMatching(/eighty/) },
  },
  {
    name: 'an invalid ClusterIP',
    text: head('ip', '  clusterIP: 10.96.0.999\n  ports:\n  - port: 80\n'),
    problem: { line: 7, reason: expect.stringMatching(/10\.96\.0\.999/) },
  },
  {
    name: 'a list instead of an object',
    text: head('shape', '  - clusterIP\n'),
    problem: { field: 'spec', reason: expect.stringMatching(/object/) },
  },
  {
    name: 'an unknown kind',
    text: 'apiVersion: v1\nkind: Gizmo\nmetadata:\n  name: x\n',
    problem: { line: 2, reason: expect.stringMatching(/Gizmo/) },
  },
  {
    name: 'text that is not YAML',
    text: 'apiVersion: v1\nkind: [Service\n',
    problem: { line: expect.any(Number), reason: expect.any(String) },
  },
  {
    name: 'a binary file',
    text: Uint8Array.from({ length: 4096 }, (_, index) => (index * 7919) % 256),
    problem: { reason: expect.stringMatching(/binary/) },
  },
  {
    name: 'an endpoint with an invalid address',
    text: `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-bad
  namespace: default
  labels:
    kubernetes.io/service-name: web
addressType: IPv4
ports:
- name: main
  port: 8080
endpoints:
- addresses: [not-an-address]
`,
    problem: { line: 13, reason: expect.stringMatching(/not-an-address/) },
  },
])('$name is reported with its line; other Services go on', async ({ text, problem }) => {
  node.manifests.putText('bad.yaml', text);
  await untilHolds(async () => {
    expect(await problems()).toEqual([expect.objectContaining({ file: 'bad.yaml', ...problem })]);
  });
  await node.programmed();
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
});

test('a file beyond the size limit is rejected without reading it', async () => {
  node.manifests.putText('bad.yaml', new Uint8Array(LARGEST_FILE_BYTES + 1).fill(0x23));
  await untilHolds(async () => {
    const reason = expect.stringMatching(/MiB/);
    expect(await problems()).toEqual([expect.objectContaining({ file: 'bad.yaml', reason })]);
  });
  await node.programmed();
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
});

test('of two Services with the same address and port the first keeps it, and the conflict is reported', async () => {
  const thief = service('zz-thief', web, []);
  node.manifests.put('bad.yaml', thief);
  await untilHolds(async () => {
    const [problem] = (await problems()).filter(({ reason }) => reason.includes('default/web'));
    expect(problem).toMatchObject({
      object: { namespace: 'default', name: 'zz-thief' },
      file: 'bad.yaml',
    });
  });
  await node.programmed();
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
});

test('a file that becomes invalid keeps its last valid state, and recovers', async () => {
  const other = { n: 60 };
  const isServed = async () => (await node.client().once(target(other))).kind === 'answered';
  node.manifests.put('bad.yaml', service('other', other, node.servers));
  await until(isServed, { what: 'the other Service' });
  node.manifests.putText('bad.yaml', 'kind: [broken\n');
  await node.programmed();
  expect(await problems()).toHaveLength(1);
  expect(await isServed()).toBe(true);
  node.manifests.put('bad.yaml', service('other', other, []));
  await untilHolds(async () => expect(await problems()).toEqual([]));
  await until(async () => !(await isServed()), { what: 'the Service without endpoints' });
});

test('one invalid object in a file does not affect the others', async () => {
  const good = { n: 61 };
  node.manifests.put('bad.yaml', [
    { kind: 'Gizmo', apiVersion: 'v1', metadata: { name: 'x' } },
    ...service('good', good, node.servers),
  ]);
  await untilHolds(async () => {
    expect(await node.client().once(target(good))).toMatchObject({ kind: 'answered' });
  });
  expect(await problems()).toHaveLength(1);
});
