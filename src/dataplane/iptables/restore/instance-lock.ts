// SPDX-License-Identifier: Apache-2.0
// One agent for the rules of a network namespace: an abstract socket, which belongs to the namespace as the rules do,
// also where two containers share nothing else. The kernel releases it when the process ends, also after SIGKILL. Who asks
// for it is told who has it.
import { createConnection, createServer, type Server } from 'node:net';
import { FairleadError } from '../../../errors.ts';

export interface RulesHolder {
  /** `agent` or `cleanup`. */
  readonly command: string;
  readonly nodeName?: string;
  readonly runDir: string;
}

export interface RulesLock {
  /** Idempotent. */
  close(): void;
}

const NAME = '\0fairlead-iptables';
const ANSWER_MS = 1_000;
const MOST_CHARACTERS = 500;

/** Throws IPTABLES_IN_USE. */
export async function lockRules(holder: RulesHolder, name = NAME): Promise<RulesLock> {
  const text = describe(holder);
  const server = createServer((socket) => {
    socket.on('error', () => undefined).end(text);
  });
  if (!(await isListening(server, name))) {
    throw new FairleadError(
      'IPTABLES_IN_USE',
      `the rules of this network namespace are written by another fairlead (${await askHolder(name)}): stop it first`,
    );
  }
  return { close: () => void server.close() };
}

function isListening(server: Server, name: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    });
    server.listen(name, () => resolve(true));
  });
}

/** Any process of the namespace may have the name: neither a slow nor an endless answer keeps anyone waiting. */
function askHolder(name: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = createConnection(name);
    const deadline = setTimeout(() => socket.destroy(), ANSWER_MS);
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      if (text.length > MOST_CHARACTERS) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(deadline);
      const answer = text.slice(0, MOST_CHARACTERS);
      resolve(answer === '' ? 'a process that does not answer' : answer);
    });
  });
}

function describe({ command, nodeName, runDir }: RulesHolder): string {
  const node = nodeName === undefined ? '' : `, node ${nodeName}`;
  return `${command} with pid ${process.pid}${node}, --run-dir ${runDir}`;
}
