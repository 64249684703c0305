// SPDX-License-Identifier: Apache-2.0
// Slips of whoever writes manifests, under traffic: a typo, a second Service with the same address, a folder that is moved,
// most files deleted. No connection of the live Service fails.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import { runSync, start } from '../../../../src/sys/exec.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import type { RunningLoad } from '../../../../tools/lab/traffic.ts';
import { clusterIps, service, slices, svc, target } from '../../../support/builders.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { startOneNode } from '../../../support/node.ts';
import { until, untilHolds } from '../../../support/until.ts';

const WEB = { n: 10 };
const OTHERS = Array.from({ length: 11 }, (_, index) => ({
  file: `other-${index}.yaml`,
  name: `other-${index}`,
  n: 20 + index,
}));
const DELAY = '4s';
const hasStrace = runSync('strace', ['--version']).code === 0;

/** All of its threads. */
const isStopped = (pid: number): boolean =>
  readdirSync(`/proc/${pid}/task`).every((thread) =>
    / T \d/.test(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')),
  );

describe.each(['bpf', 'iptables'])('slips, with --engine %s', (engine) => {
  let node: Awaited<ReturnType<typeof startOneNode>>;
  let agent: Agent;
  let load: RunningLoad | undefined;
  const startAgent = (delay = DELAY): Promise<Agent> =>
    node.startAgent(['--engine', engine, '--manifests-removal-delay', delay]);
  /** By rules it is looked at what is programmed: connections by rules have tests of their own. */
  const hasTraffic = engine === 'bpf';
  const isServed = async (): Promise<void> => {
    if (hasTraffic) expect((await node.client().once(target(WEB))).kind).toBe('answered');
  };
  const putWeb = (): void =>
    void node.manifests.put('web.yaml', service('web', WEB, [...node.servers]));
  const problems = async (): Promise<string[]> =>
    (await node.status()).problems.map(({ reason }) => reason);
  const owners = async (): Promise<string[]> => {
    const rows = (await askAgent(node.instance.runDir, '/v1/services')) as readonly ServiceRow[];
    return rows
      .filter(({ frontend }) => frontend.startsWith(`${clusterIps(WEB.n).ipv4}:80`))
      .map(({ name }) => name);
  };

  /** The agent sees all changes of `change`, or none: one that it sees alone may be a removal that need not wait. */
  const atOnce = async (change: () => void): Promise<void> => {
    const { pid } = await node.status();
    process.kill(pid, 'SIGSTOP');
    await untilHolds(() => expect(isStopped(pid)).toBe(true));
    change();
    process.kill(pid, 'SIGCONT');
  };

  beforeAll(async () => {
    node = await startOneNode(['web-1', 'web-2']);
    putWeb();
    for (const { file, name, n } of OTHERS) node.manifests.put(file, service(name, { n }, []));
    agent = await startAgent();
    await node.programmed();
  });
  afterAll(() => node?.remove());

  beforeEach(async () => {
    if (hasTraffic) load = await node.client().startLoad(target(WEB));
  });
  afterEach(async () => {
    await node.programmed();
    const report = await load?.stop();
    expect(report?.failures ?? []).toEqual([]);
    if (hasTraffic) expect(report?.connections).toBeGreaterThan(0);
    expect(await problems()).toEqual([]);
    expect(await owners()).toEqual(['web']);
  });

  test.each([
    [/^(\s+(?:- )?)port: 80$/m, 'port: 8O', 'spec.ports[0].port', /not "8O"/],
    [/^(\s+)clusterIP: /m, 'clusterip: ', 'spec.clusterip', /^unknown field/],
    [/^()endpoints:/m, 'endpoint:', 'endpoint', /^unknown field/],
  ])(
    'a typo keeps the Service, and is told with its line: %s, %s',
    async (right, wrong, field, told) => {
      const text = service('web', WEB, [...node.servers])
        .map((manifest) => dump(manifest, { noRefs: true }))
        .join('---\n');
      const typo = text.replace(right, `$1${wrong}`);
      expect(typo).not.toBe(text);
      node.manifests.putText('web.yaml', typo);
      await untilHolds(async () => {
        const [problem] = (await node.status()).problems;
        expect(problem?.reason).toMatch(told);
        expect(problem?.reason).toMatch(/; the last good version of before \S+Z keeps serving$/);
        expect(problem?.field).toBe(field);
        expect(typo.split('\n')[(problem?.line ?? 0) - 1]).toContain(wrong);
      });
      await isServed();
      putWeb();
    },
  );

  test('a later manifest with the address takes nothing, also across a restart', async () => {
    node.manifests.put('a.yaml', [svc('aaa', WEB), ...slices('aaa', [])]);
    const isTold = async (): Promise<void> =>
      expect((await problems()).join()).toContain('already belongs to Service default/web');
    await untilHolds(isTold);
    expect(await owners()).toEqual(['web']);
    await agent.stop();
    agent = await startAgent();
    await untilHolds(isTold);
    expect(await owners()).toEqual(['web']);
    await isServed();
    node.manifests.remove('a.yaml');
  });

  test('a folder that is moved away keeps all, and is found again', async () => {
    const { path } = node.manifests;
    renameSync(path, `${path}.away`);
    await untilHolds(async () => expect((await problems()).join()).toContain('no such file'));
    expect(await owners()).toEqual(['web']);
    renameSync(`${path}.away`, path);
  });

  test.skipIf(!hasStrace)(
    'a folder that is moved between its listing and the stat of its files (needs strace)',
    async () => {
      // Else the delay would keep the Services, too.
      await agent.stop();
      agent = await startAgent('0s');
      const { path } = node.manifests;
      const first = join(path, readdirSync(path).sort()[0] ?? '');
      const { pid } = await node.status();
      const trace = join(node.instance.runDir, 'strace.log');
      const args = [
        '-f',
        '-p',
        String(pid),
        '-P',
        first,
        '-e',
        'inject=statx:delay_enter=1500000',
        '-o',
        trace,
      ];
      const strace = start('strace', args, {});
      await until(() => isTraced(pid), 'strace to be attached');
      writeFileSync(join(path, 'touched.txt'), '');
      await until(() => isHeld(pid), 'the stat of the first file');
      renameSync(path, `${path}.away`);
      await untilHolds(async () => expect(readFileSync(trace, 'utf8')).toMatch(/ENOENT/));
      await untilHolds(async () => expect((await problems()).join()).toContain('no such file'));
      strace.kill('SIGINT');
      await strace.exited;
      expect(await owners()).toEqual(['web']);
      renameSync(`${path}.away`, path);
      await agent.stop();
      agent = await startAgent();
    },
  );

  test('most files deleted: the Services wait, are told, and stay if the files come back', async () => {
    const { path } = node.manifests;
    mkdirSync(`${path}.kept`);
    const names = ['web.yaml', ...OTHERS.map(({ file }) => file)];
    await atOnce(() => {
      for (const name of names) renameSync(join(path, name), join(`${path}.kept`, name));
    });
    await untilHolds(async () =>
      expect((await problems()).join()).toMatch(
        /of \d+ Services are gone .*--manifests-removal-delay/,
      ),
    );
    const { stdout } = await runCommand(node.instance, [
      'status',
      '--run-dir',
      node.instance.runDir,
    ]);
    expect(stdout).toMatch(/removals? of most Services waits?/);
    expect(await owners()).toEqual(['web']);
    for (const name of names) renameSync(join(`${path}.kept`, name), join(path, name));
    await untilHolds(async () => expect(await problems()).toEqual([]));
  });

  test('most Services emptied in their files: they wait, are told, and stay if the files are mended', async () => {
    const { path } = node.manifests;
    const names = [...OTHERS.map(({ file }) => file), 'web.yaml'];
    const good = names.map((name) => [name, readFileSync(join(path, name), 'utf8')] as const);
    const emptied = good.map(([name, text]) => {
      const empty = text
        .replace(/clusterIP"?: [^,\n]*/, (line) => `${line.split(':')[0]}: "None"`)
        .replaceAll(/service-name"?: "?(?=web)/g, (label) => `${label}z-`);
      expect(empty).not.toBe(text);
      return [name, empty] as const;
    });
    await atOnce(() => {
      for (const [name, empty] of emptied) node.manifests.putText(name, empty);
    });
    await untilHolds(async () =>
      expect((await problems()).join()).toMatch(/have lost their address or all endpoints/),
    );
    expect(await owners()).toEqual(['web']);
    await isServed();
    for (const [name, text] of good) node.manifests.putText(name, text);
    await untilHolds(async () => expect(await problems()).toEqual([]));
  });

  test('most files deleted: the Services are gone when the delay is over, and others are not', async () => {
    await atOnce(() => {
      for (const { file } of OTHERS) node.manifests.remove(file);
    });
    await untilHolds(async () =>
      expect((await problems()).join()).toContain('are gone from the folder'),
    );
    expect((await node.status()).services).toBeGreaterThan(OTHERS.length);
    await untilHolds(async () => expect((await node.status()).services).toBeLessThan(4));
  });

  test.runIf(engine === 'bpf')('commands that read pins need --run-dir alone', async () => {
    const { instance } = node;
    const ask = (...args: string[]) =>
      runCommand(instance, [...args, '--run-dir', instance.runDir]);
    for (const args of [['connections'], ['bypass', 'list'], ['audit'], ['services']]) {
      const { code, stderr } = await ask(...args);
      expect([args, code, stderr.includes('no maps')]).toEqual([args, 0, false]);
    }
    const explained = await ask(
      'explain',
      '--from',
      '10.1.1.9',
      '--to',
      `${clusterIps(WEB.n).ipv4}:80/tcp`,
    );
    expect(explained.stdout).toContain('Service default/web');
    await agent.stop();
    expect(existsSync(join(instance.runDir, 'instance.json'))).toBe(true);
    const { code, stdout } = await ask('connections', '-o', 'json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ kind: 'ConnectionList' });
    agent = await startAgent();
  });
});

const statusOf = (path: string): string => readFileSync(`${path}/status`, 'utf8');

const isTraced = (pid: number): boolean => /^TracerPid:\t[1-9]/m.test(statusOf(`/proc/${pid}`));

/** A thread that stays stopped: strace stops it for moments at every call. */
let held = { task: '', looks: 0 };
function isHeld(pid: number): boolean {
  const tasks = readdirSync(`/proc/${pid}/task`);
  const stopped = tasks.find((task) => /^State:\tt/m.test(statusOf(`/proc/${pid}/task/${task}`)));
  held = { task: stopped ?? '', looks: stopped === held.task ? held.looks + 1 : 0 };
  return stopped !== undefined && held.looks > 15;
}
