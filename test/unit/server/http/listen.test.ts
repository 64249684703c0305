// SPDX-License-Identifier: Apache-2.0
// Listeners on real sockets of 127.0.0.1, and the keeping of one by a scheduler of ours.
import type { RequestListener } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { FairleadError } from '../../../../src/errors.ts';
import { type Listen, type Listener, listenOnce } from '../../../../src/server/http/listen.ts';
import {
  listenWithRetry,
  type RetryOptions,
  type Schedule,
} from '../../../../src/server/http/retry-listen.ts';
import { ask } from './ask.ts';

const onRequest: RequestListener = (_request, response) => response.end('here');
const local = { host: '127.0.0.1', onRequest };
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

async function listening(port = 0): Promise<Listener> {
  const listener = await listenOnce({ ...local, port });
  open.push(listener);
  return listener;
}

describe('one listener', () => {
  test('answers, and gives its port back when it is closed, connections and all', async () => {
    const listener = await listening();
    expect((await ask(listener.port, '/')).body).toBe('here');
    const idle = await new Promise<Socket>((resolve) => {
      const socket = connect(listener.port, '127.0.0.1', () => resolve(socket));
    });
    const ended = new Promise((resolve) => idle.once('close', resolve));
    idle.resume();
    // Accepted by now: a request after the connection is answered after it.
    await ask(listener.port, '/');
    await Promise.all([listener.close(), listener.close()]);
    await ended;
    await listening(listener.port);
  });

  test('a port that is taken is named with address and reason', async () => {
    const { port } = await listening();
    await expect(listenOnce({ ...local, port })).rejects.toThrow(
      `127.0.0.1:${port}: the port is in use by another process (is kube-proxy still running on this node?)`,
    );
  });

  test('an address nobody has is named', async () => {
    await expect(listenOnce({ host: '192.0.2.1', port: 0, onRequest })).rejects.toThrow(
      '192.0.2.1:0: no interface of this machine has the address',
    );
  });
});

describe('a listener that is retried', () => {
  /** A scheduler whose time passes when the test says so. */
  function scheduler() {
    const due: { run: () => void; afterMs: number }[] = [];
    const schedule: Schedule = (run, afterMs) => {
      const entry = { run, afterMs };
      due.push(entry);
      return () => {
        const index = due.indexOf(entry);
        if (index >= 0) due.splice(index, 1);
      };
    };
    return { due, schedule, pass: () => due.splice(0).forEach(({ run }) => void run()) };
  }

  const options = (said: string[], more: Partial<RetryOptions> = {}): RetryOptions => ({
    ...local,
    port: 1,
    name: 'healthz',
    isFatal: false,
    onRefused: (message) => said.push(message),
    onListening: (port) => said.push(`listening on ${port}`),
    ...more,
  });

  /** Refuses as often as it has reasons, then listens. */
  const refusing = (...reasons: string[]): Listen => {
    return async (wanted) => {
      const reason = reasons.shift();
      if (reason !== undefined) throw new Error(reason);
      return listenOnce({ ...wanted, port: 0 });
    };
  };

  test('retries every 5 s and reports a reason once', async () => {
    const said: string[] = [];
    const time = scheduler();
    const kept = await listenWithRetry(options(said), refusing('a', 'a', 'b'), time.schedule);
    open.push(kept);
    expect(time.due.map(({ afterMs }) => afterMs)).toEqual([5000]);
    while (kept.port() === undefined) {
      time.pass();
      await new Promise(setImmediate);
    }
    expect(said).toEqual([
      'healthz server cannot listen on a, retrying every 5 s',
      'healthz server cannot listen on b, retrying every 5 s',
      `listening on ${kept.port()}`,
    ]);
    expect((await ask(kept.port() ?? 0, '/')).body).toBe('here');
    expect(time.due).toEqual([]);
  });

  test('a refusal is fatal only if it must be', async () => {
    const said: string[] = [];
    const error = await listenWithRetry(options(said, { isFatal: true }), refusing('a')).catch(
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(FairleadError);
    expect(String(error)).toContain('healthz server cannot listen on a');
    expect(said).toEqual([]);
  });

  test('closing takes back the next try, twice', async () => {
    const time = scheduler();
    const kept = await listenWithRetry(options([]), refusing('a', 'b'), time.schedule);
    await kept.close();
    await kept.close();
    expect(time.due).toEqual([]);
  });

  test('closing while a bind is under way leaves nothing open', async () => {
    const time = scheduler();
    let bound: Listener | undefined;
    let tries = 0;
    const slow: Listen = async (wanted) => {
      if (tries++ === 0) throw new Error('a');
      bound = await listenOnce({ ...wanted, port: 0 });
      return bound;
    };
    const said: string[] = [];
    const kept = await listenWithRetry(options(said), slow, time.schedule);
    time.pass();
    await kept.close();
    expect(bound).toBeDefined();
    await expect(ask(bound?.port ?? 0, '/')).rejects.toThrow(/ECONNREFUSED/);
    expect(said).toHaveLength(1);
  });
});
