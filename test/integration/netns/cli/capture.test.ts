// SPDX-License-Identifier: Apache-2.0
// `fairlead capture` on a node with an agent, with one that hangs, and with none: commands answer from the file as they do on the
// node, without privilege, and the file says what could not be read.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Capture } from '../../../../src/capture/format.ts';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import { compiledPath } from '../../../../tools/lab/sandbox.ts';
import { service } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent | undefined;

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2']);
  node.manifests.put('web.yaml', service('web', { n: 10, nodePort: 30_080 }, node.servers));
  node.manifests.put('empty.yaml', service('empty', { n: 11 }, []));
});
afterEach(async () => {
  agent?.child.kill('SIGCONT');
  await agent?.stop();
  agent = undefined;
});
afterAll(() => node?.remove());

const captureTo = async (file: string, ...args: readonly string[]): Promise<string> => {
  const path = join(node.instance.runDir, '..', file);
  const { runDir } = node.instance;
  const command = ['capture', '--run-dir', runDir, '--no-probe', '-o', path, ...args];
  expect(await runCommand(node.instance, command)).toMatchObject({ code: 0, stdout: '' });
  return path;
};

/** As somebody who has the file, and nothing else. */
const elsewhere = (...args: readonly string[]): Promise<RunResult> =>
  run('setpriv', [
    ...['--reuid=65534', '--regid=65534', '--clear-groups', '--bounding-set=-all'],
    ...[process.execPath, compiledPath('main.js'), ...args],
  ]);

const onNode = (...args: readonly string[]): Promise<RunResult> =>
  runCommand(node.instance, [...args, '--run-dir', node.instance.runDir]);

/** What was to be programmed, and is. */
const rowsIn = ({ stdout }: RunResult): readonly unknown[] =>
  (JSON.parse(stdout) as { items: ServiceRow[] }).items.map(
    ({ name, frontend, family, desired, kernel, kernelState }) => ({
      name,
      frontend,
      family,
      desired,
      kernel,
      kernelState,
    }),
  );

const documentIn = (path: string): Capture =>
  JSON.parse(gunzipSync(readFileSync(path)).toString()) as Capture;

const readable = (path: string): string => {
  const copy = join('/tmp', `capture-${process.pid}-${path.split('/').at(-1)}`);
  writeFileSync(copy, readFileSync(path), { mode: 0o644 });
  return copy;
};

test('commands answer from the file as the agent does', async () => {
  agent = await node.startAgent();
  await node.programmed();
  const file = readable(await captureTo('whole.capture'));
  for (const command of [
    ['services', '-o', 'json'],
    ['backends', '-o', 'json'],
    ['explain', '--from', '192.0.2.9', '--to', '10.96.0.10:80/tcp'],
    ['explain', '--from', '192.0.2.9', '--to', '10.96.0.11:80/tcp', '-o', 'json'],
  ]) {
    const [here, there] = [
      await onNode(...command),
      await elsewhere(...command, '--capture', file),
    ];
    expect({ command, ...there }).toEqual({ command, ...here });
    expect(here.stdout).not.toBe('');
  }
  const status = await elsewhere('status', '--capture', file);
  expect(status).toMatchObject({ code: 0, stdout: expect.stringContaining('in sync') });
  const { objects, log, network, unread, metrics } = documentIn(file);
  expect(objects?.length).toBe(7);
  expect(log?.join('\n')).toContain('"msg":"ready"');
  expect(metrics).toContain('fairlead_');
  expect(network.map(({ command }) => command)).toContain('ip -json address');
  expect(unread.filter(({ what }) => !what.includes('legacy'))).toEqual([]);
});

test('with an agent that hangs, maps, objects and the plan are read without it, and the file says why', async () => {
  agent = await node.startAgent();
  await node.programmed();
  const live = await onNode('services', '-o', 'json');
  agent.child.kill('SIGSTOP');
  const file = readable(await captureTo('hung.capture', '--timeout', '2s'));
  const { unread, planOf } = documentIn(file);
  expect(planOf).toBe('objects');
  const reasonOf = (what: string) => unread.find((one) => one.what === what)?.reason;
  expect(reasonOf('status')).toContain('did not answer within 2 s');
  expect(reasonOf('agent')).toContain('did not answer within 2 s');
  expect(reasonOf('metrics')).toBeDefined();
  const there = await elsewhere('services', '-o', 'json', '--capture', file);
  expect(there.code, there.stderr).toBe(0);
  expect(rowsIn(there)).toEqual(rowsIn(live));
  const status = await elsewhere('status', '--capture', file);
  expect(status.code).toBe(4);
  expect(status.stderr).toContain('the capture has no status: the agent at');
});

test('rules in the file are compared with its plan', async () => {
  agent = await node.startAgent(['--engine', 'nftables']);
  await node.programmed();
  const file = readable(await captureTo('rules.capture'));
  const compared = await elsewhere('compare', '--capture', file);
  expect(compared).toMatchObject({ code: 0, stderr: '' });
  expect(compared.stdout).toMatch(/^IPv4: plan and fairlead-nftables, \d+ classes/);
  // Another port of the same pods.
  const document = documentIn(file);
  const rules = document.rules.map(({ command, text }) => ({
    command,
    text: text.replaceAll(/\b8080\b/g, '8081'),
  }));
  const broken = `${file}.broken`;
  writeFileSync(broken, gzipSync(JSON.stringify({ ...document, rules })));
  const found = await elsewhere('compare', '--capture', broken);
  expect(found).toMatchObject({ code: 3, stdout: expect.stringContaining('default/web') });
});
