// SPDX-License-Identifier: Apache-2.0
// Keeps the objects of a folder that count in a file of the run directory, so that the next agent judges changes as this one
// would. The file is replaced as a whole, not for each change, and only by the agent whose changes are planned.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createGzip, gunzip, gzipSync } from 'node:zlib';
import { reasonOf } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import { inSlices } from '../../../sys/clock.ts';
import { type CountedObject, chunksOf, type Recalled, recalledInSteps } from './format.ts';

/** Changes within this time are written together. */
const SOON_MS = 200;
/** Between two writes, in times of how long the first took: at most a twentieth of the time is spent on them. */
const PAUSE = 20;
const RETRY_MS = 10_000;
const SLICE_MS = 5;
/** The file is in memory where /run is: a tenth of the text, for little time. */
const PACKING = { level: 1 };

export interface Keeper {
  /** What counted when the last agent ended; nothing if that cannot be used, which is told. */
  recall(): Promise<readonly Recalled[]>;
  /** Something else counts now: it is written soon. */
  changed(): void;
  /** Writes what is not written yet. Idempotent. */
  close(): void;
}

/** @param counted all objects that count, as of now */
export type Keep = (counted: () => readonly CountedObject[]) => Keeper;

export interface KeeperSettings {
  readonly path: string;
  /** The folder of manifests: objects of another one are not used. */
  readonly folder: string;
  readonly clock: Pick<Clock, 'after' | 'monotonicMs'>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

export const keeperOf =
  ({ path, folder, clock, log }: KeeperSettings): Keep =>
  (counted) => {
    let isDue = false;
    let isWriting = false;
    let isClosed = false;
    let notBeforeMs = 0;
    let cancel: () => void = () => undefined;

    const later = (): void => {
      if (isWriting || isClosed) return;
      cancel();
      const restMs = notBeforeMs - clock.monotonicMs();
      cancel = clock.after(Math.max(SOON_MS, restMs), () => void write());
    };

    const write = async (): Promise<void> => {
      isWriting = true;
      isDue = false;
      const startedMs = clock.monotonicMs();
      let pauseMs = 0;
      try {
        const bytes = await packed(chunksOf(folder, counted()));
        if (isClosed) return;
        replace(path, bytes);
      } catch (error) {
        warn(error);
        isDue = true;
        pauseMs = RETRY_MS;
      }
      isWriting = false;
      const now = clock.monotonicMs();
      notBeforeMs = now + Math.max(pauseMs, (now - startedMs) * PAUSE);
      if (isDue) later();
    };

    const warn = (error: unknown): void =>
      log.warn({ path, reason: reasonOf(error) }, 'last good versions not kept for a restart');

    return {
      async recall() {
        try {
          const recalled = await read(path, folder);
          log.info({ objects: recalled.length }, 'last good versions read');
          return recalled;
        } catch (error) {
          const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
          const fields = { path, reason: reasonOf(error) };
          log[isMissing ? 'info' : 'warn'](fields, 'no last good versions of an earlier agent');
          return [];
        }
      },
      changed() {
        const wasDue = isDue;
        isDue = true;
        if (!wasDue) later();
      },
      close() {
        if (isClosed) return;
        isClosed = true;
        cancel();
        if (!isDue && !isWriting) return;
        try {
          replace(path, gzipSync([...chunksOf(folder, counted())].join(''), PACKING));
        } catch (error) {
          warn(error);
        }
      },
    };
  };

async function read(path: string, folder: string): Promise<readonly Recalled[]> {
  const bytes = await promisify(gunzip)(readFileSync(path));
  return (await inSlices(recalledInSteps(bytes, folder), SLICE_MS)) ?? [];
}

/** The event loop runs between two chunks, and they are packed on another thread. */
async function packed(chunks: Iterable<string>): Promise<Buffer> {
  const parts: Buffer[] = [];
  await pipeline(
    Readable.from(chunks, { highWaterMark: 1 }),
    createGzip(PACKING),
    async (packing: AsyncIterable<Buffer>) => {
      for await (const part of packing) parts.push(part);
    },
  );
  return Buffer.concat(parts);
}

/** At once: no other write can come between, and a crash leaves the old file or the new one. */
function replace(path: string, bytes: Buffer): void {
  writeFileSync(`${path}.new`, bytes, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
