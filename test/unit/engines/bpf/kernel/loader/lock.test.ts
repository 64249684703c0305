// SPDX-License-Identifier: Apache-2.0
// The lock on the folder of pins while others remove and create it: `cleanup` beside `cleanup` and `run`.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest';

/** What others do just before the folder is opened, and between opening and locking it. */
const meanwhile: { beforeOpen?: () => void; afterOpen?: () => void } = {};
vi.resetModules();
vi.doMock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>();
  const take = (moment: keyof typeof meanwhile): void => {
    const act = meanwhile[moment];
    delete meanwhile[moment];
    act?.();
  };
  const openSync: typeof fs.openSync = (...args) => {
    take('beforeOpen');
    const fd = fs.openSync(...args);
    take('afterOpen');
    return fd;
  };
  return { ...fs, openSync };
});
const { listPinned, removePinned } = await import(
  '../../../../../../src/engines/bpf/kernel/loader/cleanup.ts'
);
const { lockExistingPins } = await import(
  '../../../../../../src/engines/bpf/kernel/loader/lock.ts'
);
afterAll(() => {
  vi.doUnmock('node:fs');
  vi.resetModules();
});

const HOLDER = { command: 'cleanup', runDir: '/run/none' };
let home: string;
let bpfRoot: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'fairlead-lock-'));
  bpfRoot = join(home, 'pins');
  mkdirSync(bpfRoot);
});
afterEach(() => rmSync(home, { recursive: true }));

const remove = (): void => rmSync(bpfRoot, { recursive: true });

test('a folder that is removed before it is opened needs no lock', () => {
  meanwhile.beforeOpen = remove;
  expect(lockExistingPins(bpfRoot, HOLDER)).toBeUndefined();
});

test('a folder that is removed before it is locked needs no lock', () => {
  meanwhile.afterOpen = remove;
  expect(lockExistingPins(bpfRoot, HOLDER)).toBeUndefined();
});

test('a folder that another process has recreated is locked instead', () => {
  meanwhile.afterOpen = () => {
    remove();
    mkdirSync(bpfRoot);
  };
  const lock = lockExistingPins(bpfRoot, HOLDER);
  expect(() => lockExistingPins(bpfRoot, HOLDER)).toThrow(/in use by another fairlead/);
  lock?.close();
});

test('an agent that starts while its folder is cleaned up keeps its pins', () => {
  let agent: ReturnType<typeof lockExistingPins>;
  meanwhile.afterOpen = () => {
    remove();
    mkdirSync(bpfRoot);
    agent = lockExistingPins(bpfRoot, { ...HOLDER, command: 'agent' });
    mkdirSync(join(bpfRoot, 'maps'));
  };
  expect(() => removePinned(bpfRoot, HOLDER)).toThrow(/in use by another fairlead/);
  expect(listPinned(bpfRoot)).toEqual({ links: [], maps: [] });
  agent?.close();
});
