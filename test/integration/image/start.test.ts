// SPDX-License-Identifier: Apache-2.0
// A container of the image as docs/install/image.md describes it: what is in it, how it starts, how it is stopped at any moment,
// and what it says if something is missing that it needs.
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../src/sys/exec.ts';
import { AT_ONCE_MS, untilHolds } from '../../support/until.ts';
import { CAPABILITIES } from './agent.ts';
import { type AgentNode, complaints, startAgentNode } from './agent-node.ts';
import type { Container } from './container.ts';
import { prepareRunnable } from './image.ts';

const SERVICES = 100;
const STARTS = 5;
/** With Node 24, whose own part is larger than that of Node 20 on a host. */
const MOST_MIB = 110;
/** Of the container's first process: numbers in linux/capability.h. */
const BITS: Readonly<Record<string, bigint>> = {
  NET_ADMIN: 12n,
  NET_RAW: 13n,
  PERFMON: 38n,
  BPF: 39n,
};
const built = await prepareRunnable();

describe.skipIf(!built.isReady)('a container of the image', () => {
  let node: AgentNode;

  beforeAll(async () => {
    if (built.isReady) node = await startAgentNode(built.image, SERVICES);
  });
  afterEach(() => node?.end());
  afterAll(() => node?.remove());

  const program = async (...argv: readonly string[]): Promise<readonly [number, string]> => {
    return await ended(await node.start({ command: argv, args: [] }));
  };

  test('both kinds of iptables run in it, and a shell', async () => {
    const kinds = ['iptables-nft', 'ip6tables-nft', 'iptables-legacy', 'ip6tables-legacy'];
    for (const name of kinds) {
      for (const end of ['', '-save', '-restore']) {
        const version = name.endsWith('nft') ? '(nf_tables)' : '(legacy)';
        expect(await program(`${name}${end}`, '--version')).toEqual([
          0,
          expect.stringContaining(version),
        ]);
      }
    }
    expect(await program('sh', '-c', 'ls / | grep opt')).toEqual([0, 'opt']);
  });

  test('100 Services: ready soon, with little memory', async () => {
    const measured: Awaited<ReturnType<typeof measureStart>>[] = [];
    for (let n = 0; n < STARTS; n++) {
      const agent = await node.start();
      measured.push(await measureStart(agent));
      await untilHolds(async () => expect(await node.answers(SERVICES)).toEqual({ 'web-1': 5 }));
      expect(complaints(agent)).toEqual([]);
      await agent.remove();
      // The next one finds nothing to adopt.
      expect(await ended(await node.start({ args: ['cleanup'] }))).toEqual([0, expect.anything()]);
    }
    const [readyMs, peakMib] = (['readyMs', 'peakMib'] as const).map((name) =>
      measured.map((each) => each[name]).sort((a, b) => a - b),
    );
    process.stderr.write(`image: ready after ${readyMs} ms, at most ${peakMib} MiB of memory\n`);
    // Other work on the machine delays some of them.
    expect(readyMs?.[0]).toBeLessThan(AT_ONCE_MS);
    expect(peakMib?.at(-1)).toBeLessThan(MOST_MIB);
  });

  test('exactly the capabilities of the manifest, the seccomp profile, a read-only root', async () => {
    const agent = await node.start();
    await agent.said('"msg":"ready"');
    const status = (await agent.exec('cat', '/proc/1/status')).stdout;
    const wanted = CAPABILITIES.reduce((sum, name) => sum | (1n << BITS[name]!), 0n);
    expect(BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1]}`)).toBe(wanted);
    expect(status).toMatch(/^NoNewPrivs:\s*1$/m);
    expect(status).toMatch(/^Seccomp:\s*2$/m);
    expect((await agent.exec('touch', '/opt/fairlead/new')).stderr).toContain(
      'Read-only file system',
    );
  });

  test.each([
    ['fairlead run', 0],
    ['fairlead run', 20],
    ['fairlead run', 50],
    ['fairlead run', 100],
    ['fairlead run', 200],
    ['fairlead run', 400],
    ['kube-proxy', 0],
    ['kube-proxy', 100],
  ])('%s, SIGTERM %i ms after the start: exits with 0', async (name, afterMs) => {
    const asKubeProxy = {
      command: ['/usr/local/bin/kube-proxy'],
      args: ['--manifests', '/manifests', '--hostname-override', 'n1'],
    };
    const agent = await node.start(name === 'kube-proxy' ? asKubeProxy : {});
    await agent.isRunning('tini');
    await delay(afterMs);
    await agent.signal('TERM');
    expect([await agent.exited, agent.log.filter((line) => /error/.test(line))]).toEqual([0, []]);
  });
});

const ended = async ({ exited, log }: Container): Promise<readonly [number, string]> => [
  await exited,
  log.join('\n'),
];

/** From the first process of the container on: what creates the container is the runtime's. */
async function measureStart(agent: Container): Promise<Record<'readyMs' | 'peakMib', number>> {
  const pid = await agent.isRunning('tini');
  const startMs = Date.now();
  await agent.said('"msg":"ready"');
  return { readyMs: timeOf(agent, 'ready') - startMs, peakMib: await peakMemoryMib(pid) };
}

/** When the agent has said this, ms since the epoch. */
const timeOf = ({ log }: Container, msg: string): number =>
  Date.parse(JSON.parse(log.find((line) => line.includes(`"msg":"${msg}"`)) ?? '{}').time);

/** Of the agent below this init process. */
async function peakMemoryMib(init: number): Promise<number> {
  const { stdout } = await run('pgrep', ['--parent', String(init)]);
  const status = readFileSync(`/proc/${stdout.trim()}/status`, 'utf8');
  return Math.round(Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1]) / 1024);
}
