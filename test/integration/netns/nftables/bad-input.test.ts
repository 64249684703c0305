// SPDX-License-Identifier: Apache-2.0
// What goes wrong with nftables on a node: each is told in one line that says what to do, other Services are served, and it
// comes right by itself when the cause is gone.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { ProbeReport } from '../../../../src/probe/report.ts';
import { run } from '../../../../src/sys/exec.ts';
import { type Agent, ownPaths, runCommand, startAgent } from '../../../../tools/lab/agent.ts';
import { compiledPath } from '../../../../tools/lab/sandbox.ts';
import { service, target } from '../../../support/builders.ts';
import { routeServices } from '../../../support/iptables/routed-node.ts';
import { startOneNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const web = { n: 10 };
const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;
const PERIODS = ['--iptables-sync-period', '1s', '--iptables-min-sync-period', '50ms'];
const FLAGS = ['--engine', 'nftables', ...PERIODS];
const PROBE_MS = 240_000;

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent | undefined;
const folder = mkdtempSync(join(tmpdir(), 'nft-tools-'));
const PATH = process.env['PATH'] ?? '';
let real = '';

/** A folder with an nft of its own, for PATH. */
function toolsWith(name: string, script: string | undefined): string {
  const tools = join(folder, name);
  mkdirSync(tools, { recursive: true });
  if (script !== undefined)
    writeFileSync(join(tools, 'nft'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return tools;
}

/** Everything of PATH but nft. */
function withoutNft(): string {
  const tools = toolsWith('without', undefined);
  for (const from of PATH.split(':').toReversed()) {
    for (const name of readFolder(from)) {
      if (name === 'nft') continue;
      rmSync(join(tools, name), { force: true });
      symlinkSync(join(from, name), join(tools, name));
    }
  }
  return tools;
}

function readFolder(path: string): readonly string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

/** Refuses the trial of a start at the first line with this text, and takes all else. */
const refusing = (text: string, error: string): string => `case " $* " in *" --check "*)
  line=$(grep -n '${text}' | head -1 | cut -d: -f1)
  echo "/dev/stdin:$line:1-20: Error: ${error}" >&2
  exit 1;;
esac
exec ${real} "$@"`;

const status = async (): Promise<string> =>
  (await runCommand(node.instance, ['status', '--run-dir', node.instance.runDir])).stdout;
const told = (text: string): readonly string[] =>
  agent?.log.filter((line) => line.includes(text)) ?? [];

const visited = async (): Promise<readonly string[]> =>
  Object.keys((await node.client().burst(target(web), { connections: 20 })).hits).sort();

beforeAll(async () => {
  real = (await run('sh', ['-c', 'command -v nft'])).stdout.trim();
  node = await startOneNode(['web-1', 'web-2']);
  await routeServices(node);
  node.manifests.put('web.yaml', service('web', web, node.servers));
});
afterEach(async () => {
  await agent?.kill();
  agent = undefined;
  process.env['PATH'] = PATH;
  // A node with rules of iptables goes on with them.
  await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
});
afterAll(() => {
  node?.remove();
  rmSync(folder, { recursive: true });
});

async function startWith(tools: string, flags = FLAGS): Promise<void> {
  process.env['PATH'] = tools;
  agent = await node.startAgent(flags);
}

test('a rule that is refused: its Service is named and waits, all others are served, and it is retried', async () => {
  const flag = join(folder, 'refuses');
  writeFileSync(flag, '');
  const tools = toolsWith(
    'refusing',
    `[ "$*" = '-f -' ] && [ -e ${flag} ] || exec ${real} "$@"
sed '/default\\/dns/s/ dnat / dnat to @nosuch /' | ${real} "$@"`,
  );
  await startWith(`${tools}:${PATH}`);
  node.manifests.put('dns.yaml', service('dns', dns, node.servers));
  await until(async () => (await status()).includes('default/dns'), 'the failure');
  expect(await status()).toMatch(
    /^Failed: +default\/dns rules of default\/dns: nft failed at `add rule ip6? fairlead \S+default\/dns/m,
  );
  node.manifests.put('web.yaml', service('web', web, node.pods('web-2')));
  await until(async () => (await visited()).join() === 'web-2', 'web to follow');
  rmSync(flag);
  await until(async () => (await node.client().once(target(dns), 500)).kind === 'answered', 'dns');
  await until(async () => !(await status()).includes('Failed'), 'no failure');
  for (const name of ['web.yaml', 'dns.yaml']) node.manifests.remove(name);
  node.manifests.put('web.yaml', service('web', web, node.servers));
  await agent?.stop();
});

test('an nft that goes: changes of Services need none', async () => {
  const tools = toolsWith('going', `exec ${real} "$@"`);
  await startWith(`${tools}:${withoutNft()}`);
  await node.programmed();
  rmSync(join(tools, 'nft'));
  node.manifests.put('web.yaml', service('web', web, node.pods('web-2')));
  await until(async () => (await visited()).join() === 'web-2', 'web to follow');
  expect(told('sync failed')).toEqual([]);
  toolsWith('going', `exec ${real} "$@"`);
  node.manifests.put('web.yaml', service('web', web, node.servers));
  await agent?.stop();
});

test('no nft at all: the start fails with what to install', async () => {
  process.env['PATH'] = withoutNft();
  await expect(node.startAgent(FLAGS)).rejects.toThrow(
    /code 5.*nftables does not work on this node: nft is not installed: install nftables/s,
  );
});

const NO_NUMGEN = 'Could not process rule: No such file or directory';
const UNABLE = [
  {
    what: 'an older nft',
    script: () => refusing('to numgen random mod 2', 'syntax error, unexpected numgen'),
    reason:
      /nft failed at `add rule \S+ \S+ x .*numgen.*`: syntax error.*; install nftables 1\.0\.1/,
  },
  {
    what: 'a kernel without numgen',
    script: () => refusing('to numgen random mod 2', NO_NUMGEN),
    reason: /nft failed at `add rule \S+ \S+ x .*numgen.*`: .*; the kernel may lack a module/,
  },
  {
    what: 'a kernel without fib',
    script: () => refusing('fib', NO_NUMGEN),
    reason: /nft failed at `add rule .* fib daddr type local .*`: .*; the kernel may lack a module/,
  },
];

test.each(UNABLE)('$what: --engine nftables does not start, and says why', async (one) => {
  process.env['PATH'] = `${toolsWith('unable', one.script())}:${PATH}`;
  await expect(node.startAgent(FLAGS)).rejects.toThrow(one.reason);
});

test.each(UNABLE)('$what: the probe says so, and auto serves by iptables', async (one) => {
  const tools = `${toolsWith('unable', one.script())}:${PATH}`;
  const argv = [`PATH=${tools}`, process.execPath, compiledPath('main.js'), 'probe'];
  const flags = ['--engine', 'nftables', '--timeout', '60s', '-o', 'json'];
  const { stdout } = await run('env', [...argv, ...flags], { timeoutMs: PROBE_MS });
  const { items, engine }: ProbeReport = JSON.parse(stdout);
  expect(items.find(({ feature }) => feature === 'nftables IPv4')).toMatchObject({
    answer: 'no',
    reason: expect.stringMatching(one.reason),
  });
  expect(engine).toMatchObject({ ok: false, code: 'NO_NFTABLES' });
  const forbidding = ['setpriv', '--bounding-set=-bpf,-perfmon,-sys_admin'];
  const wrapper = [...forbidding, '/usr/bin/env', `PATH=${tools}`];
  agent = await startAgent({ ...node.instance, wrapper }, PERIODS);
  await node.programmed();
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
  const text = await status();
  expect(text).toMatch(/^Dataplane: +iptables/m);
  expect(text).toMatch(
    /^Fallback: .*by iptables: .*; nftables: nftables does not work .*: nft failed at /m,
  );
  await agent.stop();
});
