// SPDX-License-Identifier: Apache-2.0
// Slips that are made while no agent runs: the next one judges them as if it had seen them, whether the last one was stopped
// or killed.
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { lastGoodPath } from '../../../../src/config/instance-paths.ts';
import { start as startProgram } from '../../../../src/sys/exec.ts';
import { type Agent, ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until, untilHolds } from '../../../support/until.ts';

const WEB = { n: 10 };
const API = { n: 11 };
const OTHERS = Array.from({ length: 11 }, (_, index) => ({
  name: `other-${index}`,
  n: 20 + index,
}));
const KEPT = 'the last good version';

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent | undefined;

const put = (name: string, spec: { readonly n: number }): number =>
  node.manifests.put(`${name}.yaml`, service(name, spec, [...node.servers]));
const putAll = (): void => {
  put('web', WEB);
  put('api', API);
  for (const { name, n } of OTHERS) put(name, { n });
};
const start = async (...flags: readonly string[]): Promise<Agent> => {
  agent = await node.startAgent(['--engine', 'bpf', ...flags]);
  return agent;
};
const problems = async (): Promise<string> =>
  (await node.status()).problems.map(({ reason }) => reason).join('\n');
const answersAt = async (spec: { readonly n: number }): Promise<string> =>
  (await node.client().once(target(spec))).kind;
/** What the API server would refuse. */
const misspell = (
  name: string,
  spec: { readonly n: number },
  right: string,
  wrong: string,
): void => {
  const good = service(name, spec, [...node.servers])
    .map((manifest) => dump(manifest, { noRefs: true }))
    .join('---\n');
  expect(good).toContain(right);
  node.manifests.putText(`${name}.yaml`, good.replace(right, wrong));
};

beforeAll(async () => {
  node = await startOneNode(['web-1']);
});
afterAll(() => node?.remove());

const endings = {
  stopped: async () => void (await agent?.stop()),
  killed: async () => void (await agent?.kill()),
};

describe.each(['stopped', 'killed'] as const)('an agent that is %s', (ending) => {
  beforeEach(async () => {
    putAll();
    const kept = lastGoodPath(node.instance.runDir);
    const before = statSync(kept, { throwIfNoEntry: false })?.ino;
    await start();
    expect(await problems()).toBe('');
    // A kill leaves what was written before.
    await until(() => statSync(kept, { throwIfNoEntry: false })?.ino !== before, 'the first write');
    expect(statSync(kept).mode & 0o777).toBe(0o600);
    await endings[ending]();
  });
  afterEach(async () => void (await agent?.stop()));

  test('bad versions and unreadable files keep what served', async () => {
    misspell('web', WEB, 'port: 80', 'port: 8O');
    misspell('other-0', { n: 20 }, 'clusterIP: ', 'clusterip: ');
    node.manifests.putText('api.yaml', 'kind: [');
    await start();
    const found = await problems();
    expect(found).toMatch(new RegExp(`not "8O"; ${KEPT}`));
    expect(found).toMatch(new RegExp(`unknown field; ${KEPT}`));
    for (const spec of [WEB, API, { n: 20 }]) expect(await answersAt(spec)).toBe('answered');
    // One that looks at the folder alone knows no earlier version.
    const { stdout } = await runCommand(node.instance, ['validate', node.manifests.path]);
    expect(stdout).toContain('not "8O"');
    expect(stdout).not.toContain(KEPT);
  });

  test('most files deleted: their Services wait', async () => {
    for (const { name } of OTHERS) node.manifests.remove(`${name}.yaml`);
    await start('--manifests-removal-delay', '10m');
    expect(await problems()).toMatch(/^11 of 13 Services are gone from the folder/m);
    for (const spec of [WEB, { n: 20 }, { n: 30 }]) expect(await answersAt(spec)).toBe('answered');
    await agent?.stop();
    // Without a wait they are gone at once.
    await start('--manifests-removal-delay', '0s');
    expect(await answersAt(WEB)).toBe('answered');
    expect(await answersAt({ n: 20 })).not.toBe('answered');
  });
});

test('without that file, as after a reboot, the bad version is the first one; cleanup removes the file', async () => {
  const kept = lastGoodPath(node.instance.runDir);
  rmSync(kept);
  putAll();
  misspell('web', WEB, 'port: 80', 'port: 8O');
  const { log } = await start();
  expect(log.join('\n')).toContain('no last good versions of an earlier agent');
  expect(await problems()).not.toContain(KEPT);
  expect(await answersAt(WEB)).not.toBe('answered');
  expect(await answersAt(API)).toBe('answered');
  put('web', WEB);
  await untilHolds(async () => expect(await answersAt(WEB)).toBe('answered'));
  await agent?.stop();
  const text = readFileSync(kept);
  expect(text.length).toBeGreaterThan(0);
  const { stdout } = await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
  expect(stdout).toContain(join(node.instance.runDir, 'manifests.jsonl.gz'));
});

test('the agent of an API server removes the file: it would be out of date when the folder is used again', async () => {
  await start();
  await agent?.stop();
  const { runDir, sandbox, nodeName, cgroupRoot } = node.instance;
  expect(existsSync(lastGoodPath(runDir))).toBe(true);
  const kubeconfig = join(runDir, 'kubeconfig');
  writeFileSync(
    kubeconfig,
    'clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n',
  );
  const flags = [
    '--kubeconfig',
    kubeconfig,
    '--hostname-override',
    nodeName,
    '--cgroup-root',
    cgroupRoot,
  ];
  const main = [
    process.execPath,
    compiledPath('main.js'),
    'run',
    ...flags,
    ...ownPaths(node.instance),
  ];
  const [program = '', ...args] = insideSandbox(sandbox, main);
  const child = startProgram(program, args, {});
  try {
    await until(() => !existsSync(lastGoodPath(runDir)), 'the removal');
  } finally {
    child.kill('SIGTERM');
    await child.exited;
  }
});
