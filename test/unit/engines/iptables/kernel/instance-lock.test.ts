// SPDX-License-Identifier: Apache-2.0
// Two writers of one network namespace: the second is told who the first is.
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import {
  isLockedElsewhere,
  lockRules,
} from '../../../../../src/engines/iptables/kernel/instance-lock.ts';
import { findLockHolder } from '../../../../../src/engines/iptables/kernel/lock-holder.ts';
import { start, stop } from '../../../../../src/sys/exec.ts';
import { until } from '../../../../support/until.ts';

const NAME = `fairlead-test-${process.pid}`;
const folder = mkdtempSync(join(tmpdir(), 'rules-'));
const NAMES = { socket: NAME, file: join(folder, 'rules.lock') };
afterAll(() => rmSync(folder, { recursive: true }));

test('one at a time', async () => {
  const first = await lockRules(
    { command: 'agent', nodeName: 'n1', runDir: '/run/fairlead' },
    NAMES,
  );
  const second = lockRules({ command: 'cleanup', runDir: '/run/other' }, NAMES);
  await expect(second).rejects.toMatchObject({
    code: 'IPTABLES_IN_USE',
    message: `the rules of this network namespace are written by another fairlead (agent with pid ${process.pid}, node n1, --run-dir /run/fairlead): stop it first`,
  });
  first.close();
  first.close();
  const third = await lockRules({ command: 'cleanup', runDir: '/run/other' }, NAMES);
  third.close();
});

const closings: (() => void)[] = [];
afterEach(() => {
  for (const close of closings.splice(0)) close();
});

/** Somebody else has the name. */
async function held(serve: (socket: Socket) => void): Promise<void> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(`\0${NAME}`.padEnd(108, '\0'), resolve));
  closings.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
}

async function refusal(): Promise<string> {
  const error = await lockRules({ command: 'agent', runDir: '/run/other' }, NAMES).catch(String);
  expect(error).toContain('written by another fairlead');
  return String(error);
}

test('its own lock is not somebody else’s; that of another process is', async () => {
  expect(isLockedElsewhere(NAMES)).toBe(false);
  const lock = await lockRules({ command: 'agent', runDir: '/run/fairlead' }, NAMES);
  expect(isLockedElsewhere(NAMES)).toBe(false);
  lock.close();
  const script = `require('net').createServer().listen('\\0${NAME}'.padEnd(108, '\\0'), () => console.log('held'))`;
  const lines: string[] = [];
  const other = start(process.execPath, ['-e', script], {
    onStdoutLine: (line) => lines.push(line),
  });
  await until(() => lines.includes('held'), { what: 'the other process' });
  expect(isLockedElsewhere(NAMES)).toBe(true);
  await stop(other);
  expect(isLockedElsewhere(NAMES)).toBe(false);
});

test('a holder that is silent is not waited for', async () => {
  await held(() => undefined);
  expect(await refusal()).toContain('a process that does not answer');
});

test('an answer that never ends is cut off', async () => {
  await held((socket) => {
    const more = (): void => {
      if (!socket.destroyed) socket.write('x'.repeat(60), () => setTimeout(more, 10));
    };
    more();
  });
  expect((await refusal()).length).toBeLessThan(700);
});

test('the holder of the xtables lock is found in /proc', () => {
  const root = mkdtempSync(join(tmpdir(), 'locks-'));
  const path = join(root, 'xtables.lock');
  writeFileSync(path, '');
  const { ino } = statSync(path);
  mkdirSync(join(root, '712'));
  writeFileSync(join(root, '712/comm'), 'flanneld\n');
  const locks = (lines: readonly string[]): void =>
    writeFileSync(join(root, 'locks'), `${lines.join('\n')}\n`);
  locks([
    `1: POSIX  ADVISORY  WRITE 9 08:01:${ino} 0 EOF`,
    `2: FLOCK  ADVISORY  WRITE 712 08:01:${ino} 0 EOF`,
  ]);
  expect(findLockHolder(path, root)).toEqual({ pid: 712, program: 'flanneld' });
  locks([`2: FLOCK  ADVISORY  WRITE 0 08:01:${ino} 0 EOF`]);
  expect(findLockHolder(path, root)).toBeUndefined();
  locks([`2: FLOCK  ADVISORY  WRITE 712 08:01:${ino + 1} 0 EOF`]);
  expect(findLockHolder(path, root)).toBeUndefined();
  expect(findLockHolder(join(root, 'nothing'), root)).toBeUndefined();
  rmSync(root, { recursive: true });
});
