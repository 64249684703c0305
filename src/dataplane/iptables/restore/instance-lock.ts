// SPDX-License-Identifier: Apache-2.0
// One agent for the rules of a network namespace: an abstract socket, which belongs to the namespace as the rules do,
// also where two containers share nothing else. The kernel releases it when the process ends, also after SIGKILL. Who asks
// for it is told who has it.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
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

const NAME = 'fairlead-iptables';

/** Of its full length, to which Node 20 fills it up and newer ones do not: to the kernel these are different names. */
const SUN_PATH = 108;
const abstract = (name: string): string => `\0${name}`.padEnd(SUN_PATH, '\0');

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

/** True if another process has it. Synchronous, for exit handlers: what is asked is the kernel's list of sockets. */
export function isLockedElsewhere(name = NAME): boolean {
  const own = ownSockets();
  return socketsNamed(name).some((inode) => !own.has(inode));
}

/** Of /proc/net/unix: `Num RefCount Protocol Flags Type St Inode Path`, with @ for each zero. */
function socketsNamed(name: string): readonly string[] {
  const listed = abstract(name).replaceAll('\0', '@');
  return readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/ +/))
    .flatMap(([, , , , , , inode, path]) =>
      path === listed && inode !== undefined ? [inode] : [],
    );
}

const ownSockets = (): ReadonlySet<string> =>
  new Set(
    readdirSync('/proc/self/fd').flatMap((fd) => /^socket:\[(\d+)\]$/.exec(linkOf(fd))?.[1] ?? []),
  );

function linkOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return ''; // That of the folder itself is closed.
  }
}

function isListening(server: Server, name: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    });
    server.listen(abstract(name), () => resolve(true));
  });
}

/** Any process of the namespace may have the name: neither a slow nor an endless answer keeps anyone waiting. */
function askHolder(name: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = createConnection(abstract(name));
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
