// SPDX-License-Identifier: Apache-2.0
// The agent's unix socket in --run-dir: read-only JSON for the other commands, and proof that the
// instance is taken.
import { mkdirSync, rmSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import { dirname, join } from 'node:path';
import { FairleadError, reasonOf } from '../errors.ts';

/** By path, each with what is asked of it; undefined is no answer. */
export type Routes = Readonly<Record<string, (query: URLSearchParams) => unknown>>;

export const socketPath = (runDir: string): string => join(runDir, 'agent.sock');

export interface AgentSocket {
  close(): void;
}

/** Throws ALREADY_RUNNING if another agent answers there; a dead agent's socket is replaced. */
export async function serveSocket(runDir: string, routes: Routes): Promise<AgentSocket> {
  const path = socketPath(runDir);
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  const other = await askAgent(runDir, '/v1/status').catch(() => undefined);
  if (other !== undefined) {
    const pid =
      typeof other === 'object' && other !== null && 'pid' in other
        ? ` (pid ${String(other.pid)})`
        : '';
    throw new FairleadError(
      'ALREADY_RUNNING',
      `another fairlead${pid} serves ${path}: stop it first, or give this instance its own --run-dir and --bpf-root`,
    );
  }
  rmSync(path, { force: true });
  const server = createServer((incoming, response) => {
    const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://agent');
    const route = routes[pathname];
    response.setHeader('Content-Type', 'application/json');
    response.statusCode = route === undefined ? 404 : 200;
    response.end(JSON.stringify(route?.(searchParams) ?? { error: 'no such path' }));
  });
  await listen(server, path);
  return {
    close() {
      server.closeAllConnections();
      server.close();
      rmSync(path, { force: true });
    },
  };
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
}

/** One question to a running agent. Throws NOT_RUNNING if none answers. */
export function askAgent(runDir: string, route: string): Promise<unknown> {
  const path = socketPath(runDir);
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => reject(notAnswered(path, error));
    const asked = request({ socketPath: path, path: route, timeout: 5_000 }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', fail);
      response.on('end', () => {
        try {
          resolve(JSON.parse(Buffer.concat(chunks).toString()));
        } catch (error) {
          fail(error);
        }
      });
    });
    asked.on('timeout', () => asked.destroy(new Error('no answer in 5 s')));
    asked.on('error', fail);
    asked.end();
  });
}

/** Whoever may not ask must not be told that nobody is there. */
function notAnswered(path: string, error: unknown): FairleadError {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EACCES' || code === 'EPERM') {
    return new FairleadError(
      'NO_PRIVILEGE',
      `permission denied on the agent's socket ${path}: run this command as root`,
    );
  }
  return new FairleadError(
    'NOT_RUNNING',
    `no agent answers at ${path} (${reasonOf(error)}): is \`fairlead run\` up with this --run-dir?`,
  );
}
