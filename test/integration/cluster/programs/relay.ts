// SPDX-License-Identifier: Apache-2.0
// Forwards from a port of 127.0.0.1 into a network namespace. Changes no interface or address of this machine
// and needs no fixed port.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { insideSandbox, type Sandbox } from '../../../../tools/lab/sandbox.ts';

const CHILD = fileURLToPath(new URL('relay-child.mjs', import.meta.url));

export interface Relay {
  /**
   * A port of 127.0.0.1 that leads to `host:port` as seen from the sandbox. It accepts while the target is
   * down, and resets what it accepted.
   */
  forward(host: string, port: number): Promise<number>;
  close(): Promise<void>;
}

/** Starts a relay into a sandbox's namespace. Its process is in the sandbox's cgroup. */
export function openRelay(sandbox: Sandbox): Relay {
  const argv = ['setpriv', '--pdeathsig', 'KILL', process.execPath, CHILD];
  const [shell = 'sh', ...args] = insideSandbox(sandbox, argv);
  const child = spawn(shell, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const exited = once(child, 'exit');
  // One at a time, so that each reply belongs to the last request.
  let last: Promise<unknown> = Promise.resolve();
  return {
    forward: (host, port) => {
      const next = last.then(() => forward(child, exited, { host, port }));
      last = next.catch(() => undefined);
      return next;
    },
    close: async () => {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}

async function forward(
  child: ChildProcess,
  exited: Promise<unknown>,
  target: { readonly host: string; readonly port: number },
): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // Always an object for a TCP server that listens.
  const answer = once(child, 'message').then(() => 'relaying');
  child.send(target, server);
  const outcome = await Promise.race([answer, exited]);
  server.close(); // Closes our copy; the child's keeps listening.
  if (outcome !== 'relaying') throw new Error('a relay exited before it was ready');
  return port;
}
