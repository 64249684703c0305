// SPDX-License-Identifier: Apache-2.0
// Listeners that pass from one agent to the next, with real sockets: two pools in one process are as two agents.
import { closeSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { get, Agent as HttpAgent } from 'node:http';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Listener } from '../../../../src/server/http/listen.ts';
import {
  createListenerPool,
  type Inherited,
  type ListenerPool,
} from '../../../../src/server/http/listener-pool.ts';
import { descriptorOf } from '../../../../src/sys/descriptor.ts';
import { receiveDescriptors, sendDescriptors } from '../../../../src/sys/native.ts';
import { ask } from './ask.ts';

const HOST = '127.0.0.1';
const saying =
  (text: string): RequestListener =>
  (_request, response) =>
    response.end(text);

let warnings: object[];
let pools: ListenerPool[];
beforeEach(() => {
  warnings = [];
  pools = [];
});
afterEach(async () => {
  for (const pool of pools) {
    pool.keep();
    await pool.start();
  }
});

function pool(): ListenerPool {
  const made = createListenerPool({
    warn: (...line: readonly unknown[]) => void warnings.push(line),
  });
  pools.push(made);
  return made;
}

const listening = (of: ListenerPool, text: string, port = 0): Promise<Listener> =>
  of.listen({ host: HOST, port, onRequest: saying(text) });

const said = async (port: number): Promise<string> => (await ask(port, '/')).body;

/** As another process gets them: new descriptors of the same sockets. */
async function passed(listeners: readonly Inherited[]): Promise<readonly Inherited[]> {
  const path = join(tmpdir(), `fairlead-pool-${process.pid}-${Math.random()}.sock`);
  let accepted: (socket: unknown) => void = () => undefined;
  const receiving = new Promise<unknown>((resolve) => {
    accepted = resolve;
  });
  const server: Server = createServer({ pauseOnConnect: true }, (socket) => accepted(socket));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const sender = connect(path);
  const receiver = (await receiving) as ReturnType<typeof connect>;
  sendDescriptors(
    descriptorOf(sender)!,
    Buffer.from('x'),
    listeners.map(({ descriptor }) => descriptor),
  );
  const message = receiveDescriptors(descriptorOf(receiver)!)!;
  sender.destroy();
  receiver.destroy();
  server.close();
  return listeners.map((each, index) => ({ ...each, descriptor: message.descriptors[index]! }));
}

test('a listener of its own answers at once, and its port is free when it is closed', async () => {
  const one = pool();
  const listener = await listening(one, 'first');
  expect(await said(listener.port)).toBe('first');
  await expect(listening(one, 'second', listener.port)).rejects.toThrow('the port is in use');
  await listener.close();
  await listener.close();
  const again = await listening(one, 'again', listener.port);
  expect(await said(again.port)).toBe('again');
});

test('the next agent answers when it starts to, and until then the one before it does', async () => {
  const [before, next] = [pool(), pool()];
  const { port } = await listening(before, 'before');
  next.inherit(await passed(before.keep()));
  const listener = await listening(next, 'next', port);
  expect(listener.port).toBe(port);
  for (let n = 0; n < 20; n++) expect(await said(port)).toBe('before');
  await next.start();
  // Either of them, from here on.
  expect(['before', 'next']).toContain(await said(port));
  void before.leave();
  for (let n = 0; n < 20; n++) expect(await said(port)).toBe('next');
  expect(warnings).toEqual([]);
});

test('who connects while nobody accepts is answered by the next agent', async () => {
  const [before, next] = [pool(), pool()];
  const { port } = await listening(before, 'before');
  next.inherit(await passed(before.keep()));
  await listening(next, 'next', port);
  void before.leave();
  const waiting = Promise.all(Array.from({ length: 20 }, () => said(port)));
  await next.start();
  expect(await waiting).toEqual(Array.from({ length: 20 }, () => 'next'));
});

test('after `keep` closing a listener has no effect, and the same agent can listen there again', async () => {
  const one = pool();
  const listener = await listening(one, 'before');
  expect(one.keep()).toHaveLength(1);
  await listener.close();
  expect(await said(listener.port)).toBe('before');
  await listening(one, 'resumed', listener.port);
  expect(await said(listener.port)).toBe('before');
  await one.start();
  expect(await said(listener.port)).toBe('resumed');
  await listener.close();
  expect(await said(listener.port)).toBe('resumed');
});

test('what nobody listens on any more is closed at the start, also in the agent that got it', async () => {
  const [before, next] = [pool(), pool()];
  const gone = await listening(before, 'before');
  const kept = await listening(before, 'before');
  next.inherit(await passed(before.keep()));
  await listening(next, 'next', kept.port);
  await next.start();
  void before.leave();
  await expect(said(gone.port)).rejects.toThrow(/ECONNREFUSED/);
  expect(await said(kept.port)).toBe('next');
});

test('another address is bound anew, beside what was inherited', async () => {
  const [before, next] = [pool(), pool()];
  const { port } = await listening(before, 'before');
  next.inherit(await passed(before.keep()));
  const other = await listening(next, 'other');
  expect(await said(other.port)).toBe('other');
  await expect(next.listen({ host: '0.0.0.0', port, onRequest: saying('all') })).rejects.toThrow(
    'the port is in use',
  );
});

test('a listener that is closed before the start is closed in this process alone', async () => {
  const [before, next] = [pool(), pool()];
  const { port } = await listening(before, 'before');
  next.inherit(await passed(before.keep()));
  await (await listening(next, 'next', port)).close();
  await next.start();
  expect(await said(port)).toBe('before');
});

test('inherited listeners can be passed on before they were started', async () => {
  const [first, second, third] = [pool(), pool(), pool()];
  const { port } = await listening(first, 'first');
  second.inherit(await passed(first.keep()));
  await listening(second, 'second', port);
  third.inherit(await passed(second.keep()));
  await listening(third, 'third', port);
  await third.start();
  void first.leave();
  void second.leave();
  expect(await said(port)).toBe('third');
});

test('a descriptor of another address, and one that listens nowhere: bound anew, with a warning', async () => {
  const [before, next] = [pool(), pool()];
  const [one, two] = [await listening(before, 'one'), await listening(before, 'two')];
  const [first, second] = (await passed(before.keep())) as [Inherited, Inherited];
  await new Promise((resolve) => setImmediate(resolve));
  next.inherit([{ ...first, descriptor: second.descriptor }]);
  closeSync(first.descriptor);
  await listening(next, 'next', first.port);
  void before.leave();
  await next.start();
  expect(await said(first.port)).toBe('next');
  expect(warnings).toMatchObject([
    [
      { listener: `${HOST}:${one.port}`, reason: `it listens on ${HOST}:${two.port}` },
      'inherited listener cannot be used, listening anew',
    ],
  ]);
});

test('a connection that lasts is answered to its end, and told that it is the last request', async () => {
  const before = pool();
  const { port } = await listening(before, 'before');
  const agent = new HttpAgent({ keepAlive: true, maxSockets: 1 });
  const request = (): Promise<readonly [string, string | undefined]> =>
    new Promise((resolve, reject) => {
      get({ host: HOST, port, agent }, (response) => {
        let text = '';
        response.on('data', (part) => {
          text += part;
        });
        response.on('end', () => resolve([text, response.headers.connection]));
      }).on('error', reject);
    });
  expect(await request()).toEqual(['before', 'keep-alive']);
  before.keep();
  let hasLeft = false;
  const left = before.leave().then(() => {
    hasLeft = true;
  });
  await expect(said(port)).rejects.toThrow(/ECONNREFUSED/);
  expect(hasLeft).toBe(false);
  expect(await request()).toEqual(['before', 'close']);
  await left;
  agent.destroy();
});
