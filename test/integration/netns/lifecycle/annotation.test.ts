// SPDX-License-Identifier: Apache-2.0
// `cleanup` and the annotation of this node's Node, when the API server cannot be reached; with one, see the cluster tests.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeAnnotated } from '../../../../src/source/apiserver/annotated.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';

let all: TestNodes;
let node: TestNode;

beforeAll(async () => {
  all = await startNodes([{ name: 'n1', servers: [], clients: [] }]);
  [node] = all.nodes as [TestNode];
});
afterAll(() => all?.remove());

const cleanup = (...flags: readonly string[]) =>
  runCommand(node.instance, ['cleanup', ...ownPaths(node.instance).slice(0, 4), ...flags]);

test('all but the annotation is removed, one line says so, and the next run retries', async () => {
  const agent = await node.startAgent();
  await agent.stop();
  await writeAnnotated(node.instance.runDir, {
    node: 'n1',
    servers: [{ url: 'http://127.0.0.1:1', tlsName: undefined }],
    credentials: { kind: 'none' },
  });
  const what = 'annotation fairlead.io/direct-return of Node n1';
  const would = await cleanup('--dry-run');
  expect(would.code).toBe(0);
  expect(would.stdout).toContain(`would remove ${what}`);
  const first = await cleanup();
  expect(first.code).toBe(1);
  expect(first.stdout).toMatch(/removed \d+ links/);
  expect(first.stderr.trim().split('\n')).toEqual([
    expect.stringMatching(
      new RegExp(`${what} is not removed \\(.*ECONNREFUSED.*kubectl annotate node n1 .*-return-$`),
    ),
  ]);
  const again = await cleanup('--dry-run');
  expect(again.stdout.trim()).toBe(`would remove ${what}`);
  expect((await cleanup('--drain', '--wait-for-proxy=none')).code).toBe(1);
});
