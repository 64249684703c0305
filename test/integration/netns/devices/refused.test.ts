// SPDX-License-Identifier: Apache-2.0
// A kernel that refuses the packet object, with --engine bpf: the agent serves sockets alone, and says so.
import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCommand } from '../../../../src/lab/agent.ts';
import type { Answer } from '../../../../src/observe/answer.ts';
import { bpfObjectPath, packageRoot } from '../../../../src/sys/package.ts';
import { service } from '../../../support/builders.ts';
import { startOneNode, type TestNode } from '../../../support/node.ts';
import { AT_ONCE_MS } from '../../../support/until.ts';

const OBJECT = 'packet.bpf.o';
const refusedObject = join(packageRoot(), 'build/bpf-test/refused.bpf.o');

let node: TestNode & { remove(): void };
let folder: string | undefined;

/** The objects of the build, except for the packet programs. */
function buildObjects(): string {
  const built = dirname(bpfObjectPath(OBJECT));
  const objects = mkdtempSync(join(tmpdir(), 'fairlead-refused-'));
  for (const name of readdirSync(built)) copyFileSync(join(built, name), join(objects, name));
  copyFileSync(refusedObject, join(objects, OBJECT));
  return objects;
}

beforeAll(async () => {
  folder = buildObjects();
  process.env['FAIRLEAD_BPF_DIR'] = folder;
  node = await startOneNode(['web']);
});
afterAll(() => {
  delete process.env['FAIRLEAD_BPF_DIR'];
  node?.remove();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

test('the agent starts without packets, serves sockets, and status names the reason', async () => {
  const [web] = node.pods('web');
  node.manifests.put('web.yaml', service('web', { n: 10 }, [web!]));
  const agent = await node.startAgent(['--devices', 'auto', '--engine', 'bpf']);
  const target = { address: '10.96.0.10', port: 80, protocol: 'TCP' } as const;
  expect(await node.client().once(target, AT_ONCE_MS)).toMatchObject({ backend: 'web' });
  expect(agent.log.filter((line) => line.includes('only sockets of this node'))).toHaveLength(1);

  const at = ['--run-dir', node.instance.runDir];
  const { code, stdout } = await runCommand(node.instance, ['status', ...at]);
  expect(code).toBe(3);
  expect(stdout).toMatch(/^Health: +degraded: .*1 layer refused by the kernel/m);
  expect(stdout).toMatch(/^Failed: +packet layer: the kernel refused a program/m);
  expect(stdout).not.toMatch(/^Devices?:/m);
  const flow = ['--from', '192.0.2.1', '--to', '10.96.0.10:80/tcp', '-o', 'json'];
  const explained = await runCommand(node.instance, ['explain', ...flow, ...at]);
  const { dataplane, limits } = JSON.parse(explained.stdout) as Answer;
  expect({ dataplane, limits }).toEqual({
    dataplane: null,
    limits: ['not served by bpf: packets from outside'],
  });
  await agent.stop();
});
