// SPDX-License-Identifier: Apache-2.0
// Both sides of a take-over over a real admin socket, with descriptors that are only numbers: what each does when the other one does
// not behave.
import { fstatSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  findRunning,
  type Running,
  receiveAll,
} from '../../../../src/instance/take-over/asking.ts';
import { createGiving, type GivingParts } from '../../../../src/instance/take-over/giving.ts';
import {
  controlText,
  LISTENERS_PATH,
  LOCK_TEXT,
  PROTOCOL,
  queryOf,
  TAKE_OVER_PATH,
} from '../../../../src/instance/take-over/protocol.ts';
import { type AgentSocket, serveSocket, socketPath } from '../../../../src/server/admin-socket.ts';
import type { Inherited } from '../../../../src/server/http/listener-pool.ts';
import { until, untilHolds } from '../../../support/until.ts';

const SUCCESSOR = {
  pid: 4711,
  version: '9.9.9',
  facts: { netns: '1:1', bpfRoot: undefined, cgroup: undefined },
};
/** More than one message has. */
const LISTENERS: readonly Inherited[] = Array.from({ length: 250 }, (_, index) => ({
  ...{ host: '0.0.0.0', port: 30_000 + index, isIpv6Only: false },
  descriptor: 1000 + index,
}));

const LOCK = 999;
const RELEASED = { lock: LOCK, listeners: LISTENERS };

type Message = { readonly bytes: Uint8Array; readonly descriptors: readonly number[] };

let runDir: string;
let admin: AgentSocket;
let said: string[];
let messages: Message[];
const open: { destroy(): unknown }[] = [];

beforeEach(() => {
  runDir = mkdtempSync(join(tmpdir(), 'fairlead-take-over-'));
  said = [];
  messages = [];
});
afterEach(() => {
  for (const one of open.splice(0)) one.destroy();
  admin.close();
  rmSync(runDir, { recursive: true });
});

async function serveAgent(over: Partial<GivingParts> = {}): Promise<void> {
  // That of another test may still say something.
  const mine = said;
  admin = await serveSocket(runDir, { '/v1/status': () => ({ pid: 1 }) });
  const giving = createGiving({
    refusal: () => undefined,
    release: () => {
      mine.push('released');
      return RELEASED;
    },
    given: () => mine.push('given'),
    resume: () => mine.push('resumed'),
    log: { info: () => undefined, warn: () => undefined },
    send: (_socket, bytes, descriptors) => {
      messages.push({ bytes: Uint8Array.from(bytes), descriptors });
    },
    ...over,
  });
  admin.serveConnections(giving);
}

const receive = (): Message | undefined => messages.shift();
const find = async (parts: { readonly releaseMs?: number } = {}): Promise<Running> => {
  const running = await findRunning(runDir, SUCCESSOR, { receive, ...parts });
  if (running === undefined) throw new Error('no agent runs');
  open.push({ destroy: () => running.close() });
  return running;
};
const heard = (...expected: readonly string[]): Promise<void> =>
  untilHolds(() => expect(said).toEqual(expected));

/** A connection of a successor that says what it wants. */
function connectWith(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const headers = { Connection: 'Upgrade', Upgrade: PROTOCOL };
    const asked = request({ socketPath: socketPath(runDir), path, headers });
    asked.on('upgrade', (_response, socket) => {
      open.push(socket);
      socket.on('error', () => undefined);
      resolve(socket as Socket);
    });
    asked.on('response', ({ statusCode }) => reject(new Error(`status ${statusCode}`)));
    asked.on('error', reject);
    asked.end();
  });
}

const control = (): Promise<Socket> => connectWith(`${TAKE_OVER_PATH}?${queryOf(SUCCESSOR)}`);
const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.destroyed) resolve();
    socket.on('close', () => resolve());
    socket.resume();
  });

describe('a successor', () => {
  test('gets all listeners, in several messages, and the agent waits for its end', async () => {
    await serveAgent();
    const running = await find();
    expect(said).toEqual([]);
    expect(await running.take()).toEqual(RELEASED);
    expect(messages).toEqual([]);
    expect(said).toEqual(['released']);
    running.serves();
    await heard('released', 'given');
    running.close();
    await running.gone;
    expect(await control().catch((error: unknown) => String(error))).toContain('status 409');
    expect(said).toEqual(['released', 'given']);
  });

  test('that ends before it asks for listeners is forgotten', async () => {
    await serveAgent();
    const first = await find();
    first.close();
    const second = await until(() => find(), 'the agent takes another successor');
    expect(await second.take()).toEqual(RELEASED);
    expect(said).toEqual(['released']);
  });

  test('that ends before it serves: the agent resumes, and takes another one', async () => {
    await serveAgent();
    const running = await find();
    await running.take();
    running.close();
    await heard('released', 'resumed');
    expect(await (await find()).take()).toEqual(RELEASED);
  });

  test('is refused while another one takes over, by the id of that one', async () => {
    await serveAgent();
    await find();
    await expect(find()).rejects.toMatchObject({
      code: 'ALREADY_RUNNING',
      message: expect.stringMatching(
        /^the agent that serves .*agent\.sock \(pid \d+\) does not hand over, because another agent \(pid 4711\) is taking it over: stop it first/,
      ),
    });
  });

  test('is refused with the agent’s reason and code', async () => {
    const refusal = { code: 'OTHER_CGROUP', reason: 'its cgroup is another one' } as const;
    await serveAgent({ refusal: () => refusal });
    await expect(find()).rejects.toMatchObject({
      code: 'OTHER_CGROUP',
      message: expect.stringContaining('because its cgroup is another one: stop it first'),
    });
    expect(said).toEqual([]);
  });

  test('is told of an agent that cannot hand over: one that starts, or an older one', async () => {
    admin = await serveSocket(runDir, { '/v1/status': () => ({ pid: 1 }) });
    await expect(find()).rejects.toMatchObject({
      code: 'ALREADY_RUNNING',
      message: expect.stringContaining('is starting, or of a version that cannot hand over'),
    });
  });

  test('finds no agent where none is', async () => {
    admin = await serveSocket(runDir, {});
    admin.close();
    expect(await findRunning(runDir, SUCCESSOR)).toBeUndefined();
  });

  test('gets nothing of an agent that has ended meanwhile, and starts alone', async () => {
    admin = await serveSocket(runDir, {});
    const sockets: Socket[] = [];
    admin.serveConnections((_path, _query, socket) => {
      sockets.push(socket);
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n`);
    });
    const running = await find();
    const taken = running.take();
    await until(() => sockets.length === 2, 'both connections');
    for (const socket of sockets) socket.destroy();
    expect(await taken).toBeUndefined();
    await running.gone;
    running.serves();
  });

  test('does not wait for good for an agent that agrees and releases nothing', async () => {
    admin = await serveSocket(runDir, {});
    admin.serveConnections((path, _query, socket) => {
      if (path === LISTENERS_PATH) return;
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n`);
    });
    const running = await find({ releaseMs: 50 });
    await expect(running.take()).rejects.toMatchObject({
      code: 'TAKE_OVER_FAILED',
      message: expect.stringContaining('it has released nothing within 0.05 s'),
    });
  });
});

describe('the agent', () => {
  test.each([
    ['nonsense', 'nonsense\n'],
    ['the other side’s line', controlText({ kind: 'released', count: 1 })],
    ['serves before it has listeners', controlText({ kind: 'serves' })],
  ])('goes on when a successor says %s', async (_name, line) => {
    await serveAgent();
    const socket = await control();
    socket.write(line);
    await closed(socket);
    expect(said).toEqual([]);
    await until(() => find(), 'the agent takes another successor');
  });

  test.each([
    ['no successor', TAKE_OVER_PATH],
    ['listeners without a successor', LISTENERS_PATH],
    ['another path', '/v1/other'],
  ])('refuses %s', async (_name, path) => {
    await serveAgent();
    await expect(connectWith(path)).rejects.toThrow('status 409');
    expect(said).toEqual([]);
  });

  test('resumes if it cannot release, or cannot send', async () => {
    const failing = (): never => {
      throw new Error('EAGAIN');
    };
    const lose = async (): Promise<void> => {
      const running = await find();
      await expect(running.take()).rejects.toMatchObject({
        code: 'TAKE_OVER_FAILED',
        message: expect.stringContaining('EAGAIN'),
      });
      running.close();
    };
    await serveAgent({ send: failing });
    await lose();
    await heard('released', 'resumed');
    admin.close();
    await serveAgent({ release: failing });
    await lose();
    await heard('released', 'resumed', 'resumed');
  });

  test('goes on answering the commands of users', async () => {
    await serveAgent();
    await find();
    const status = await new Promise<number | undefined>((resolve) => {
      const asked = request({ socketPath: socketPath(runDir), path: '/v1/status' });
      asked.on('response', (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      asked.end();
    });
    expect(status).toBe(200);
  });
});

describe('messages with descriptors', () => {
  const line = (...ports: readonly number[]): Uint8Array =>
    Buffer.from(
      `${JSON.stringify(ports.map((port) => ({ host: '::', port, isIpv6Only: true })))}\n`,
    );
  /** Descriptors that may be closed. */
  const files = (count: number): number[] =>
    Array.from({ length: count }, () => openSync('/dev/null', 'r'));
  const isOpen = (fd: number): boolean => {
    try {
      return fstatSync(fd).isCharacterDevice();
    } catch {
      return false;
    }
  };
  const lockMessage = (descriptor: number): Message => ({
    bytes: Buffer.from(LOCK_TEXT),
    descriptors: [descriptor],
  });
  const of = (all: readonly Message[]) => {
    const waiting = [...all];
    return () => waiting.shift();
  };

  beforeEach(() => serveAgent());

  test.each([
    ['fewer descriptors than announced', 2, [{ ports: [1], fds: 1 }]],
    ['more than announced', 1, [{ ports: [1, 2], fds: 2 }]],
    ['fewer addresses than descriptors', 2, [{ ports: [1], fds: 2 }]],
    ['more addresses than descriptors', 2, [{ ports: [1, 2, 3], fds: 2 }]],
    ['no message at all', 1, []],
  ])('%s: refused, and what came is closed', (_name, count, list) => {
    const all: Message[] = files(1).map(lockMessage);
    for (const { ports, fds } of list) {
      all.push({ bytes: line(...ports), descriptors: files(fds) });
    }
    expect(() => receiveAll(3, count, of(all))).toThrow(/announced/);
    for (const fd of all.flatMap(({ descriptors }) => descriptors)) {
      expect([fd, isOpen(fd)]).toEqual([fd, false]);
    }
  });

  test('the end of the connection, and bytes that are no addresses', () => {
    const end = { bytes: new Uint8Array(), descriptors: [] };
    const [lock = 0, fd = 0] = files(2);
    expect(() => receiveAll(3, 1, of([end]))).toThrow('it passes on no lock');
    const text = { bytes: Buffer.from('nonsense\n'), descriptors: [fd] };
    expect(() => receiveAll(3, 1, of([lockMessage(lock), text]))).toThrow(
      /1 descriptors and 0 addresses/,
    );
    expect([isOpen(lock), isOpen(fd)]).toEqual([false, false]);
    expect(() => receiveAll(undefined, 1, of([]))).toThrow(/no descriptor/);
  });

  test('listeners without the lock: refused, and what came is closed', () => {
    const [fd = 0] = files(1);
    expect(() => receiveAll(3, 0, of([{ bytes: line(1), descriptors: [fd] }]))).toThrow(
      'it passes on no lock',
    );
    expect(isOpen(fd)).toBe(false);
  });

  test('a line may come in parts', () => {
    const bytes = line(1, 2);
    const parts = [
      lockMessage(900),
      { bytes: bytes.slice(0, 9), descriptors: [901] },
      { bytes: bytes.slice(9), descriptors: [902] },
    ];
    const { lock, listeners } = receiveAll(3, 2, of(parts));
    expect(lock).toBe(900);
    expect(listeners.map(({ port, descriptor }) => [port, descriptor])).toEqual([
      [1, 901],
      [2, 902],
    ]);
  });
});
