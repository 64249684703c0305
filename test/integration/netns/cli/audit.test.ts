// SPDX-License-Identifier: Apache-2.0
// `fairlead audit` on maps that were changed by something other than the agent.
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';

const web = { n: 10 };
let node: Awaited<ReturnType<typeof startOneNode>>;
beforeAll(async () => {
  node = await startOneNode(['web-1']);
  node.manifests.put('web.yaml', service('web', web, node.servers));
});
afterAll(() => node?.remove());

const audit = (...args: readonly string[]) =>
  runCommand(node.instance, ['audit', '--run-dir', node.instance.runDir, ...args]);

/** Deletes every entry of a pinned map. */
async function empty(map: string): Promise<void> {
  const { bpfRoot } = node.instance;
  const pinned = ['pinned', join(bpfRoot, 'maps', map)];
  const { stdout } = await run('bpftool', ['-j', 'map', 'dump', ...pinned]);
  const entries: { key: string[] }[] = JSON.parse(stdout);
  for (const { key } of entries) {
    const deleted = await run('bpftool', ['map', 'delete', ...pinned, 'key', ...key]);
    expect(deleted.code, deleted.stderr).toBe(0);
  }
}

test('exits with 3 without an agent, 0 in sync, and 3 once for drift, which it names and repairs', async () => {
  expect(await audit()).toMatchObject({ code: 3, stderr: expect.stringMatching(/agent/) });
  const agent = await node.startAgent();
  expect(await audit()).toMatchObject({ code: 0, stdout: expect.stringMatching(/^in sync/) });
  await empty('fl_frontend4');
  const found = await audit('-o', 'json');
  expect(found.code).toBe(3);
  const { drift }: { drift: string[] } = JSON.parse(found.stdout);
  expect(drift.join('\n')).toContain('10.96.0.10:80/TCP');
  expect(await audit()).toMatchObject({ code: 0 });
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
  await agent.stop();
});
