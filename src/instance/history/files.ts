// SPDX-License-Identifier: Apache-2.0
// The segments of a history on disk: `0000000001.seg`, the oldest first.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { scan } from '../../history/frame.ts';
import type { HistoryRecord } from '../../history/records.ts';

const PATTERN = /^(\d{10})\.seg$/;

export const segmentPath = (dir: string, number: number): string =>
  join(dir, `${String(number).padStart(10, '0')}.seg`);

/** Their numbers. Throws what the file system throws. */
export const segmentNumbers = (dir: string): readonly number[] =>
  readdirSync(dir)
    .flatMap((name) => PATTERN.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);

/** One segment at a time, so that the memory for one is enough. A segment that is removed meanwhile is left out. */
export function* readSegments(dir: string): Generator<Iterable<HistoryRecord>> {
  for (const number of segmentNumbers(dir)) {
    const bytes = readOrNothing(segmentPath(dir, number));
    if (bytes !== undefined) yield recordsOf(bytes);
  }
}

export function* recordsOf(bytes: Buffer): Generator<HistoryRecord> {
  for (const { record } of scan(bytes)) yield record;
}

function readOrNothing(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
