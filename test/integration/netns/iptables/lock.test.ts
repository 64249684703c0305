// SPDX-License-Identifier: Apache-2.0
// The lock on the rules of a network namespace, where a process without privileges has taken the name of its socket.
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import {
  isLockedElsewhere,
  lockRules,
} from '../../../../src/engines/iptables/kernel/instance-lock.ts';
import { type Child, run, start, stop } from '../../../../src/sys/exec.ts';
import { until } from '../../../support/until.ts';

const NOBODY = 65_534;
const folder = mkdtempSync(join(tmpdir(), 'lock-'));
const names = { socket: `fairlead-test-${process.pid}`, file: join(folder, 'rules.lock') };
const agent = { command: 'agent', nodeName: 'n1', runDir: '/run/fairlead' };
const children: Child[] = [];

afterEach(async () => {
  for (const child of children.splice(0)) await stop(child);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** @param accepts false: its queue is full, so that nobody can ask who it is */
async function take(uid: number, backlog = 511): Promise<Child> {
  const address = `'\\0${names.socket}'.padEnd(108, '\\0')`;
  const script = `require('net').createServer().listen({ path: ${address}, backlog: ${backlog} }, () => console.log('held'))`;
  const lines: string[] = [];
  const child = start(
    'setpriv',
    ['--reuid', String(uid), '--clear-groups', process.execPath, '-e', script],
    { onStdoutLine: (line) => lines.push(line) },
  );
  children.push(child);
  await until(() => lines.includes('held'), 'the name to be taken');
  return child;
}

/** A client that stays, whatever the other does. */
const connect = (): Socket =>
  new Socket({ allowHalfOpen: true })
    .on('error', () => undefined)
    .connect(`\0${names.socket}`.padEnd(108, '\0'));

const openSockets = (): number =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;

test('it refuses nobody, and is named', async () => {
  const child = await take(NOBODY);
  expect(isLockedElsewhere(names)).toBe(false);
  const lock = await lockRules(agent, names);
  expect(lock.warning).toMatch(new RegExp(`^pid ${child.pid} of user ${NOBODY}, which is no`));
  expect(isLockedElsewhere(names)).toBe(false);
  // Those that share the folder still exclude each other.
  await expect(lockRules({ ...agent, command: 'cleanup' }, names)).rejects.toMatchObject({
    code: 'IPTABLES_IN_USE',
    message: expect.stringContaining(`(agent with pid ${process.pid}, node n1, --run-dir`),
  });
  lock.close();
  lock.close();
  (await lockRules(agent, names)).close();
});

test('a process of root that shares no folder is respected', async () => {
  await take(0);
  expect(isLockedElsewhere(names)).toBe(true);
  await expect(lockRules(agent, names)).rejects.toMatchObject({ code: 'IPTABLES_IN_USE' });
  expect(isLockedElsewhere({ ...names, socket: `${names.socket}-2` })).toBe(false);
});

test('a name that is free again after a moment is taken', async () => {
  const holder = await take(0, 1);
  // With a full queue nobody tells who it is; a holder that is stopped does not accept.
  holder.kill('SIGSTOP');
  const waiting = Array.from({ length: 4 }, () => connect());
  await until(() => waiting.some(({ pending }) => !pending), 'connections that wait');
  const locked = lockRules(agent, names);
  holder.kill('SIGKILL');
  const lock = await locked;
  expect(lock.warning).toBeUndefined();
  lock.close();
  for (const socket of waiting) socket.destroy();
});

test('who asks and stays is sent away', async () => {
  const lock = await lockRules(agent, names);
  const before = openSockets();
  const askers = Array.from({ length: 40 }, () => connect());
  await until(() => askers.every(({ pending }) => !pending), 'connections');
  // Theirs alone: both ends are of this process.
  await until(() => openSockets() <= before + askers.length, 'the holder to close its ends');
  for (const socket of askers) socket.destroy();
  await expect(lockRules(agent, names)).rejects.toMatchObject({ code: 'IPTABLES_IN_USE' });
  lock.close();
});

test('asking whether it is held leaves the file as it is', async () => {
  writeFileSync(names.file, 'agent with pid 1');
  expect(isLockedElsewhere(names)).toBe(false);
  expect(readFileSync(names.file, 'utf8')).toBe('agent with pid 1');
});

test('where no file can be made, the socket decides', async () => {
  const nowhere = { ...names, file: '/proc/nowhere/rules.lock' };
  const lock = await lockRules(agent, nowhere);
  expect(lock.warning).toBeUndefined();
  await expect(lockRules(agent, nowhere)).rejects.toMatchObject({ code: 'IPTABLES_IN_USE' });
  lock.close();
});

test('on a full file system the file is held all the same', async () => {
  const full = join(folder, 'full');
  mkdirSync(full);
  await run('mount', ['-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', full]);
  try {
    writeFileSync(join(full, 'all'), Buffer.alloc(4096));
    const there = { ...names, file: join(full, 'rules.lock') };
    const lock = await lockRules(agent, there);
    await expect(lockRules(agent, { ...there, socket: 'another' })).rejects.toMatchObject({
      code: 'IPTABLES_IN_USE',
    });
    lock.close();
  } finally {
    await run('umount', [full]);
  }
});

test('a file is held by one process, and by none when that ends', async () => {
  const script = `
import { lockFile } from '${join(import.meta.dirname, '../../../../build/js/engines/iptables/kernel/lock-file.js')}';
lockFile('${names.file}', 'agent with pid 1');
console.log('held');
setInterval(() => undefined, 1000);`;
  const lines: string[] = [];
  const child = start(process.execPath, ['--input-type=module', '-e', script], {
    onStdoutLine: (line) => lines.push(line),
    onStderrLine: (line) => lines.push(line),
  });
  children.push(child);
  await until(() => lines.includes('held'), 'the lock');
  expect(isLockedElsewhere(names)).toBe(true);
  await expect(lockRules(agent, names)).rejects.toThrow(
    'another fairlead (agent with pid 1): stop',
  );
  child.kill('SIGKILL');
  await child.exited;
  expect(isLockedElsewhere(names)).toBe(false);
  (await lockRules(agent, names)).close();
});
