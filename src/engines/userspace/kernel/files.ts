// SPDX-License-Identifier: Apache-2.0
// The files that listeners, connections and flows may take of those that the process can open. Others are left to the agent: its
// watches, its admin socket and its own programs go on when clients take all there is.

/** What there is too little of for a connection. */
export type Shortage = 'files' | 'ports';

export interface Files {
  /** Of the process: RLIMIT_NOFILE. */
  readonly limit: number;
  /** False: there are not so many; nothing is taken. */
  take(count: number): boolean;
  /** Gives back what has been taken. */
  give(count: number): void;
  /** False: a quarter of all is kept for connections. */
  takeForListener(): boolean;
  giveOfListener(): void;
}

/** A connection: the client's and the backend's. */
export const FILES_OF = { TCP: 2, UDP: 1 } as const;

/** With the pipes of bulk transfers. */
const MOST_RESERVED = 256;

export const leftForSockets = (limit: number): number =>
  limit - Math.min(MOST_RESERVED, Math.ceil(limit / 4));

export function filesOf(limit: number): Files {
  let left = leftForSockets(limit);
  let leftForListeners = Math.floor((left * 3) / 4);
  return {
    limit,
    take(count) {
      if (left < count) return false;
      left -= count;
      return true;
    },
    give(count) {
      left += count;
    },
    takeForListener() {
      if (leftForListeners === 0 || left === 0) return false;
      leftForListeners -= 1;
      left -= 1;
      return true;
    },
    giveOfListener() {
      leftForListeners += 1;
      left += 1;
    },
  };
}

/** Opens a listener, which has its file until it is closed. Throws EMFILE. */
export async function withFile<Closed extends { close(): void }>(
  files: Files,
  open: () => Promise<Closed>,
): Promise<Closed> {
  if (!files.takeForListener()) {
    throw Object.assign(new Error('listeners have all files that they may'), { code: 'EMFILE' });
  }
  try {
    const opened = await open();
    const close = opened.close.bind(opened);
    opened.close = () => {
      files.giveOfListener();
      close();
    };
    return opened;
  } catch (error) {
    files.giveOfListener();
    throw error;
  }
}

/** By the error of a system call; undefined: it is about something else. */
export function shortageOf(code: unknown): Shortage | undefined {
  if (code === 'EMFILE' || code === 'ENFILE') return 'files';
  // Of connect(2): TCP and UDP say it in different ways.
  return code === 'EADDRNOTAVAIL' || code === 'EAGAIN' ? 'ports' : undefined;
}
