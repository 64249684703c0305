// SPDX-License-Identifier: Apache-2.0
// A ring of segments: frames are appended to the last one, and the oldest are removed so that all together stay below a size.
// Every write waits outside of the event loop.
import { type FileHandle, mkdir, open, readFile, stat, unlink } from 'node:fs/promises';
import { scan } from '../../history/frame.ts';
import type { HistoryRecord } from '../../history/records.ts';
import { segmentNumbers, segmentPath } from './files.ts';

/** Of the ring, without the state at its beginning. */
const SEGMENTS = 16;

export interface Found {
  /** Of the last segment. */
  readonly records: readonly HistoryRecord[];
  /** Bytes after the last whole record, which were cut off. */
  readonly torn: number;
}

/** Of no use to try again soon: each attempt writes as much as there is room for. */
export class TooSmallError extends Error {}

export class Ring {
  readonly #dir: string;
  readonly #maxBytes: number;
  #sizes = new Map<number, number>();
  #handle: FileHandle | undefined;
  /** Of changes, in the last segment. */
  #changed = 0;

  constructor(dir: string, maxBytes: number) {
    this.#dir = dir;
    this.#maxBytes = maxBytes;
  }

  /** Cuts off what a crash has left of the last record. Throws what the file system throws. */
  async open(): Promise<Found> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    const sizes = new Map<number, number>();
    for (const number of segmentNumbers(this.#dir))
      sizes.set(number, (await stat(segmentPath(this.#dir, number))).size);
    this.#sizes = sizes;
    const last = Math.max(0, ...sizes.keys());
    if (last === 0) return { records: [], torn: 0 };
    const path = segmentPath(this.#dir, last);
    const bytes = await readFile(path);
    const records: HistoryRecord[] = [];
    let end = 0;
    for (const scanned of scan(bytes)) {
      records.push(scanned.record);
      if (scanned.record.t !== 'key') this.#changed += scanned.end - end;
      end = scanned.end;
    }
    this.#handle = await open(path, 'a', 0o600);
    if (end < bytes.length) await this.#handle.truncate(end);
    sizes.set(last, end);
    return { records, torn: bytes.length - end };
  }

  bytes(): number {
    let sum = 0;
    for (const size of this.#sizes.values()) sum += size;
    return sum;
  }

  /** The next records belong into a segment of their own: this one has enough, or there is none. */
  isFull(): boolean {
    return this.#handle === undefined || this.#changed >= this.#maxBytes / SEGMENTS;
  }

  /** @param isState it begins a segment, and does not count as a change */
  async append(bytes: Buffer, isState = false): Promise<void> {
    const last = Math.max(0, ...this.#sizes.keys());
    if (this.#handle === undefined) throw new Error('no segment is open');
    const { bytesWritten } = await this.#handle.write(bytes);
    this.#sizes.set(last, (this.#sizes.get(last) ?? 0) + bytesWritten);
    if (!isState) this.#changed += bytesWritten;
    if (bytesWritten < bytes.length) throw new Error('no space is left on the device');
    await this.#prune();
  }

  /** Begins a segment. The one before is complete: it is what a power failure may not take. */
  async next(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.datasync().finally(() => handle.close());
    const number = Math.max(0, ...this.#sizes.keys()) + 1;
    this.#sizes.set(number, 0);
    this.#changed = 0;
    this.#handle = await open(segmentPath(this.#dir, number), 'ax', 0o600);
  }

  /** After an error: whatever is in the last segment, nothing is added to it. */
  async abandon(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close().catch(() => undefined);
  }

  async #prune(): Promise<void> {
    const numbers = [...this.#sizes.keys()].sort((a, b) => a - b);
    for (const number of numbers.slice(0, -1)) {
      if (this.bytes() <= this.#maxBytes) return;
      await unlink(segmentPath(this.#dir, number)).catch(ignoreMissing);
      this.#sizes.delete(number);
    }
    if (this.bytes() > this.#maxBytes)
      throw new TooSmallError(
        `all Services together need more than ${Math.round(this.#maxBytes / 2 ** 20)} MiB: raise --history-size`,
      );
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
