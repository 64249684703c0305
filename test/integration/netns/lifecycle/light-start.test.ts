// SPDX-License-Identifier: Apache-2.0
// The memory of an agent, which makes the settings that reduce it by itself: it is the same however the agent is started.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runSync, start, stop } from '../../../../src/sys/exec.ts';
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
    [
      ...readFileSync(compiledPath(file), 'utf8').matchAll(
        /(?<!=>)\b(?:require\(|from)"(\.[^"]+)"/g,
      ),
    ]
      .map((found) => found[1] ?? '')
      .filter((part) => part !== './rolldown-runtime.js');
  expect(importsOf('main.js')).toEqual([]);
  expect(importsOf('parts/begin.js')).toEqual(['./first.js']);
  expect(importsOf('parts/first.js')).toEqual([]);
});

test('V8 takes what the build has compiled of each part of `run`', () => {
  const check = `const vm = require('node:vm');
    vm.Script = class extends vm.Script {
      constructor(text, options) {
        super(text, options);
        const state = this.cachedDataRejected ?? 'none';
        console.error(options.filename.split('/').pop(), state);
      }
    };
    require('node:module').syncBuiltinESMExports();`;
  const url = `data:text/javascript,${encodeURIComponent(
    `import { createRequire } from 'node:module'; const require = createRequire('/'); ${check}`,
  )}`;
  const { stderr } = runSync(process.execPath, ['--import', url, MAIN, 'run', '--help']);
  const states = stderr.trimEnd().split('\n');
  const settings = ['begin.js none', 'first.js none', 'rolldown-runtime.js none'];
  expect(states.filter((state) => !state.endsWith(' false')).sort()).toEqual(settings);
  expect(states).toContain('run.js false');
});

test('undici of Node, which reading all exports of node:http loads from Node 22 on, is not loaded', () => {
  const ask = `process.on('exit', () => console.error(process.moduleLoadList.join('\\n')));`;
  const url = `data:text/javascript,${encodeURIComponent(ask)}`;
  const { stderr } = runSync(process.execPath, ['--import', url, MAIN, 'run', '--help']);
  const modules = stderr.split('\n');
  expect(modules).toContain('NativeModule http');
  expect(modules.filter((name) => name.includes('undici'))).toEqual([]);
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
