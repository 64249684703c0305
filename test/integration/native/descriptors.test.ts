// SPDX-License-Identifier: Apache-2.0
// Descriptors that pass over a UNIX socket: what arrives is the same open file, and nothing stays open that nobody has.
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { descriptorOf } from '../../../src/sys/descriptor.ts';
import { receiveDescriptors, sendDescriptors } from '../../../src/sys/native.ts';
import { inChild } from './support/child.ts';
import { caught } from './support/errors.ts';

const MOST = 253;

let folder: string;
let server: Server;
let sender: Socket;
let receiver: Socket;
let from: number;
let to: number;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fairlead-fd-'));
  const path = join(folder, 'socket');
  const accepted = new Promise<Socket>((resolve) => {
    server = createServer({ pauseOnConnect: true }, resolve).listen(path, () => {
      sender = connect(path).on('error', () => undefined);
    });
  });
  receiver = await accepted;
  from = descriptorOf(sender)!;
  to = descriptorOf(receiver)!;
});
afterEach(() => {
  sender.destroy();
  receiver.destroy();
  server.close();
  rmSync(folder, { recursive: true });
});

const x = Buffer.from('x');
const openFiles = (): number => readdirSync('/proc/self/fd').length;
const isOpen = (fd: number): boolean => {
  try {
    return fstatSync(fd).isFile();
  } catch {
    return false;
  }
};
const textOf = (message: ReturnType<typeof receiveDescriptors>): string =>
  Buffer.from(message?.bytes ?? []).toString();

test('the same open file arrives: what one side writes the other one reads where it was', () => {
  const file = openSync(join(folder, 'file'), 'w+');
  writeSync(file, 'hello world');
  sendDescriptors(from, Buffer.from('one file'), [file]);
  const message = receiveDescriptors(to);
  expect(textOf(message)).toBe('one file');
  const [got = -1] = message!.descriptors;
  expect(got).not.toBe(file);
  expect(fstatSync(got).ino).toBe(fstatSync(file).ino);
  closeSync(file);
  ftruncateSync(got, 5);
  const bytes = Buffer.alloc(5);
  readSync(got, bytes, 0, 5, 0);
  expect(bytes.toString()).toBe('hello');
  closeSync(got);
});

test('it is not inherited by programs that this process starts', () => {
  const file = openSync(join(folder, 'file'), 'w');
  sendDescriptors(from, x, [file]);
  const [got = -1] = receiveDescriptors(to)!.descriptors;
  const flags = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${got}`, 'utf8'))?.[1];
  expect(Number.parseInt(flags ?? '0', 8) & 0o2000000).toBe(0o2000000);
  for (const fd of [file, got]) closeSync(fd);
});

test('as many as the kernel takes at once, in their order, and messages one after the other', () => {
  const files = Array.from({ length: MOST }, (_, n) => openSync(join(folder, `${n}`), 'w'));
  sendDescriptors(from, Buffer.from('first'), files);
  sendDescriptors(from, Buffer.from('second'), files.slice(0, 2));
  const first = receiveDescriptors(to);
  expect([textOf(first), first!.descriptors.length]).toEqual(['first', MOST]);
  expect(first!.descriptors.map((fd) => fstatSync(fd).ino)).toEqual(
    files.map((fd) => fstatSync(fd).ino),
  );
  const second = receiveDescriptors(to);
  expect([textOf(second), second!.descriptors.length]).toEqual(['second', 2]);
  expect(receiveDescriptors(to)).toBeUndefined();
  for (const fd of [...files, ...first!.descriptors, ...second!.descriptors]) closeSync(fd);
});

test('bytes without descriptors have none, and the end is a message without bytes', async () => {
  expect(receiveDescriptors(to)).toBeUndefined();
  await new Promise<void>((resolve) => sender.write('plain', () => resolve()));
  expect(receiveDescriptors(to)).toMatchObject({ descriptors: [] });
  await new Promise<void>((resolve) => {
    sender.on('close', () => resolve());
    sender.destroy();
  });
  expect(receiveDescriptors(to)).toMatchObject({ bytes: new Uint8Array(), descriptors: [] });
});

test('what is in a socket that nobody reads is closed with it', async () => {
  const before = openFiles();
  const file = openSync(join(folder, 'file'), 'w');
  sendDescriptors(from, x, [file]);
  closeSync(file);
  expect(openFiles()).toBe(before);
  sender.destroy();
  await new Promise<void>((resolve) => {
    receiver.on('close', () => resolve());
    receiver.destroy();
  });
});

describe('refused', () => {
  test.each<readonly [string, readonly unknown[]]>([
    ['no arguments', []],
    ['no bytes', [0, new Uint8Array(), [0]]],
    ['too many bytes', [0, new Uint8Array(65_537), [0]]],
    ['bytes that are text', [0, 'x', [0]]],
    ['no descriptors', [0, x, []]],
    ['too many descriptors', [0, x, Array.from({ length: MOST + 1 }, () => 0)]],
    ['descriptors that are no list', [0, x, { length: 1, 0: 0 }]],
    ['a descriptor that is text', [0, x, ['0']]],
    ['a negative descriptor', [0, x, [-1]]],
    ['a descriptor beyond those of the system', [0, x, [2 ** 31]]],
    ['a hole in the list', [0, x, new Array(1)]],
    ['a negative socket', [-1, x, [0]]],
  ])('%s', (_name, args) => {
    expect(caught(() => sendDescriptors(...(args as [number, Uint8Array, number[]]))).code).toBe(
      'ARGUMENT',
    );
  });

  test('a getter that throws: its own error, and nothing is sent', () => {
    const list: number[] = [];
    Object.defineProperty(list, 0, {
      get: () => {
        throw new Error('mine');
      },
    });
    expect(() => sendDescriptors(from, x, list)).toThrow('mine');
    expect(receiveDescriptors(to)).toBeUndefined();
  });

  test('what is not open, and what is no socket', () => {
    const file = openSync(join(folder, 'file'), 'w');
    const errorOf = (...args: Parameters<typeof sendDescriptors>) =>
      caught(() => sendDescriptors(...args));
    expect(errorOf(from, x, [file, 999_999])).toMatchObject({ code: 'EBADF', op: 'sendmsg' });
    expect(errorOf(file, x, [file]).code).toBe('ENOTSOCK');
    expect(caught(() => receiveDescriptors(file))).toMatchObject({
      code: 'ENOTSOCK',
      op: 'recvmsg',
    });
    expect(caught(() => receiveDescriptors(999_999)).code).toBe('EBADF');
    expect(caught(() => receiveDescriptors('0' as never)).code).toBe('ARGUMENT');
    expect(isOpen(file)).toBe(true);
    closeSync(file);
  });

  test('a reader that does not read: the buffer is full some time, without a wait', () => {
    const file = openSync(join(folder, 'file'), 'w');
    const bytes = new Uint8Array(65_536);
    const sendMany = (): void => {
      for (let n = 0; n < 100; n++) sendDescriptors(from, bytes, [file]);
    };
    expect(caught(sendMany).code).toBe('EAGAIN');
    for (
      let message = receiveDescriptors(to);
      message !== undefined;
      message = receiveDescriptors(to)
    ) {
      for (const fd of message.descriptors) closeSync(fd);
    }
    closeSync(file);
  });

  test('a process without room for more files: an error, and those that did arrive are closed', async () => {
    const path = join(folder, 'second');
    const result = await inChild(async (native, at, require) => {
      const net = require('node:net');
      const fs = require('node:fs');
      const accepted = new Promise<import('node:net').Socket>((resolve) => {
        net.createServer({ pauseOnConnect: true }, resolve).listen(at);
      });
      const sender = net.connect(at);
      const receiver = await accepted;
      const fdOf = (socket: object): number => (socket as { _handle: { fd: number } })._handle.fd;
      native.sendDescriptors(fdOf(sender), Buffer.from('x'), [0, 0, 0, 0]);
      const held: number[] = [];
      try {
        for (;;) held.push(fs.openSync('/dev/null', 'r'));
      } catch {
        // Room for two of the four.
        for (const fd of held.splice(-2)) fs.closeSync(fd);
      }
      let code = 'none';
      try {
        native.receiveDescriptors(fdOf(receiver));
      } catch (error) {
        code = String((error as { code?: unknown }).code);
      }
      let room = 0;
      try {
        for (; room < 10; room++) held.push(fs.openSync('/dev/null', 'r'));
      } catch {
        // Full again.
      }
      setTimeout(() => process.exit(0), 0);
      return { code, room };
    }, path);
    expect(result).toEqual({ code: 'EMFILE', room: 2 });
  });
});
