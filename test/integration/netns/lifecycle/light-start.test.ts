// SPDX-License-Identifier: Apache-2.0
// The memory of an agent, which makes the settings that reduce it by itself: it is the same however the agent is started.
import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { start, stop } from '../../../../src/sys/exec.ts';
import { ownPaths } from '../../../../tools/lab/agent.ts';
import { compiledPath, IMAGE_ENVIRONMENT, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const SERVICES = 100;
/** By version of Node, while it starts: on an idle machine 62, 74 and 79 MiB are used. */
const LIMITS: Readonly<Record<string, number>> = { 20: 72, 22: 84, 24: 88 };
const MOST_MIB = LIMITS[process.versions.node.split('.')[0] ?? ''] ?? 88;
/** Of Node's own code that only a start needs: from then on less by so much is resident. */
const GIVEN_BACK_MIB = 4;

let node: Awaited<ReturnType<typeof startOneNode>>;
beforeAll(async () => {
  node = await startOneNode(['a', 'b']);
  const services = Array.from({ length: SERVICES }, (_, index) =>
    service(`svc-${index}`, { n: index + 1 }, node.servers),
  );
  node.manifests.put('all.yaml', services.flat());
});
afterAll(() => node?.remove());

const MAIN = compiledPath('main.js');

test('nothing is loaded before the settings but what makes them', () => {
  const importsOf = (file: string): readonly string[] =>
    [...readFileSync(compiledPath(file), 'utf8').matchAll(/\bfrom"(\.[^"]+)"/g)].map(
      (found) => found[1] ?? '',
    );
  expect(importsOf('main.js')).toEqual(['./parts/first.js']);
  expect(importsOf('parts/first.js')).toEqual([]);
});

test('no file has all exports of node:http, for which Node from 22 on loads an undici of its own', () => {
  const files = readdirSync(compiledPath('parts')).filter((name) => name.endsWith('.js'));
  expect(files.length).toBeGreaterThan(10);
  const whole = files.filter((name) =>
    /\bfrom"(node:)?http"/.test(readFileSync(compiledPath(`parts/${name}`), 'utf8')),
  );
  expect(whole).toEqual([]);
});

test.each([
  ['as the image does', [MAIN]],
  ['by node', [process.execPath, MAIN]],
])(
  `an agent with ${SERVICES} Services, started %s, needs at most ${MOST_MIB} MiB`,
  async (_, command) => {
    const { instance } = node;
    const flags = ['--manifests', instance.manifests.path, '--cgroup-root', instance.cgroupRoot];
    const run = ['run', '--hostname-override', instance.nodeName, ...flags, ...ownPaths(instance)];
    const [program = '', ...args] = insideSandbox(instance.sandbox, [
      ...['env', ...IMAGE_ENVIRONMENT, ...command],
      ...run,
    ]);
    let isReady = (): void => undefined;
    const ready = new Promise<string>((resolve) => {
      isReady = () => resolve('ready');
    });
    const agent = start(program, args, {
      onStderrLine: (line) => {
        if (line.includes('"msg":"ready"')) isReady();
      },
    });
    expect(await Promise.race([ready, agent.exited])).toBe('ready');
    const status = (): string => readFileSync(`/proc/${agent.pid}/status`, 'utf8');
    const mib = (what: string): number =>
      Number(new RegExp(`^${what}:\\s+(\\d+)`, 'm').exec(status())?.[1]) / 1024;
    await until(() => mib('VmRSS') < mib('VmHWM') - GIVEN_BACK_MIB, {
      what: 'code of the start given back',
    });
    const peak = mib('VmHWM');
    expect(status()).toMatch(/^Name:\s+(node|MainThread)/m);
    await stop(agent);
    expect(peak).toBeLessThan(MOST_MIB);
  },
);
