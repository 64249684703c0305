// SPDX-License-Identifier: Apache-2.0
// One agent for the rules of a network namespace, by two locks that the kernel releases when the process ends, also after
// SIGKILL. An abstract socket belongs to the namespace as the rules do, also where two containers share nothing else; but
// any process of the namespace can take its name. A file excludes agents that share the folder, and only root can open it.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createConnection, createServer, type Server } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { FairleadError } from '../../../errors.ts';
import * as native from '../../../sys/native.ts';
import { holderIn, isFileHeldElsewhere, type LockedFile, lockFile, lockPath } from './lock-file.ts';

export interface RulesHolder {
  /** `agent` or `cleanup`. */
  readonly command: string;
  readonly nodeName?: string;
  readonly runDir: string;
}

export interface RulesLock {
  /** Who keeps the name of the socket from its use, and what that means. */
  readonly warning?: string;
  /** Idempotent. */
  close(): void;
}

export interface LockNames {
  readonly socket: string;
  readonly file: string;
}

const namesHere = (): LockNames => ({ socket: 'fairlead-iptables', file: lockPath() });

/** Of its full length, to which Node 20 fills it up and newer ones do not: to the kernel these are different names. */
const SUN_PATH = 108;
const abstract = (name: string): string => `\0${name}`.padEnd(SUN_PATH, '\0');

const ANSWER_MS = 1_000;
const MAX_CHARACTERS = 500;
/** Who asks at once; further ones are sent away. */
const MAX_ASKERS = 16;
/** Its holder may be ending, or have many waiting at its socket. */
const UNKNOWN_MS = 3_000;
const AGAIN_MS = 50;

/** Of this process. */
const own = new Set<RulesLock>();

/** For who removes what another engine has left: an agent that writes rules has the lock already. Throws IPTABLES_IN_USE. */
export const lockOrShare = (holder: RulesHolder): Promise<RulesLock> =>
  own.size > 0 ? Promise.resolve({ close: () => undefined }) : lockRules(holder);

/** Throws IPTABLES_IN_USE. */
export async function lockRules(holder: RulesHolder, names = namesHere()): Promise<RulesLock> {
  const lock = await lockOf(holder, names);
  const owned: RulesLock = {
    ...lock,
    close: () => {
      own.delete(owned);
      lock.close();
    },
  };
  own.add(owned);
  return owned;
}

async function lockOf(holder: RulesHolder, names: LockNames): Promise<RulesLock> {
  const text = describe(holder);
  const file = await lockedFile(names.file, text);
  if (file === 'held') throw inUse(holderIn(names.file) ?? (await askHolder(names.socket)));
  const unlock = file === 'unusable' ? () => undefined : () => file.close();
  const server = serverOf(text);
  try {
    const peer = await listenOrPeer(server, names.socket);
    if (peer === 'listening') {
      const close = (): void => {
        server.close();
        unlock();
      };
      return { close };
    }
    if (isTrusted(peer)) throw inUse(await askHolder(names.socket));
    return { warning: warningOf(peer, names.socket), close: unlock };
  } catch (error) {
    unlock();
    throw error;
  }
}

/** Who only asks whether it is held has it for a moment. */
async function lockedFile(path: string, text: string): Promise<LockedFile> {
  const file = lockFile(path, text);
  if (file !== 'held') return file;
  await delay(AGAIN_MS);
  return lockFile(path, text);
}

function serverOf(text: string): Server {
  const server = createServer((socket) => {
    socket.on('error', () => undefined).end(text, () => socket.destroy());
  });
  server.maxConnections = MAX_ASKERS;
  return server;
}

/** Whoever has the name, which is undefined if nobody tells for long. */
async function listenOrPeer(server: Server, name: string): Promise<Peer | 'listening'> {
  const deadline = performance.now() + UNKNOWN_MS;
  for (;;) {
    if (await isListening(server, name)) return 'listening';
    const peer = native.abstractListener(name);
    if (peer !== undefined || performance.now() > deadline) return peer;
    await delay(AGAIN_MS);
  }
}

/** True if another process has it. Synchronous, for exit handlers. */
export function isLockedElsewhere(names = namesHere()): boolean {
  const ours = ownSockets();
  const isForeign = socketsNamed(names.socket).some((inode) => !ours.has(inode));
  if (isForeign && isTrusted(native.abstractListener(names.socket))) return true;
  return isFileHeldElsewhere(names.file);
}

type Peer = ReturnType<typeof native.abstractListener>;

/** Only who may write rules has a reason to hold the lock. */
const isTrusted = (peer: Peer): boolean =>
  peer !== undefined && (peer.uid === 0 || peer.uid === process.geteuid?.());

const inUse = (holder: string): FairleadError =>
  new FairleadError(
    'IPTABLES_IN_USE',
    `the rules of this network namespace are written by another fairlead (${holder}): stop it first`,
  );

function warningOf(peer: Peer, name: string): string {
  const who = peer === undefined ? 'a process' : `pid ${peer.pid} of user ${peer.uid}`;
  return `${who}, which is no fairlead, listens at the abstract socket ${name}: an agent of another container that does not share this one's run directory is not kept from writing rules, too; end that process`;
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

/** Neither a slow nor an endless answer keeps anyone waiting. */
function askHolder(name: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = createConnection(abstract(name));
    const deadline = setTimeout(() => socket.destroy(), ANSWER_MS);
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      if (text.length > MAX_CHARACTERS) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(deadline);
      const answer = text.slice(0, MAX_CHARACTERS);
      resolve(answer === '' ? 'a process that does not answer' : answer);
    });
  });
}

function describe({ command, nodeName, runDir }: RulesHolder): string {
  const node = nodeName === undefined ? '' : `, node ${nodeName}`;
  return `${command} with pid ${process.pid}${node}, --run-dir ${runDir}`;
}
