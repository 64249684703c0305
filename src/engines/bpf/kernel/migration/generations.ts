// SPDX-License-Identifier: Apache-2.0
// Generations of maps, each a folder of pins. `maps` is the one that programs are loaded with, `maps-next` one that is
// being prepared, `maps-old-N` those that it replaced, until no program uses them. Two renames replace a generation: an
// agent that is killed in between leaves no `maps`, and the next one ends the replacement.
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { pinFolder, pinsIn, unpin } from '../loader/pins.ts';

const OLD = /^maps-old-(\d+)$/;

const nextFolder = (bpfRoot: string): string => join(bpfRoot, 'maps-next');

/** Replaced generations, the latest one first. */
export function oldGenerations(bpfRoot: string): readonly string[] {
  if (!existsSync(bpfRoot)) return [];
  return readdirSync(bpfRoot)
    .flatMap((name) => {
      const [, number] = OLD.exec(name) ?? [];
      return number === undefined ? [] : [{ name, number: Number(number) }];
    })
    .sort((one, other) => other.number - one.number)
    .map(({ name }) => join(bpfRoot, name));
}

/** After an agent that was killed: ends a replacement that it had begun, else forgets what it prepared. */
export function recoverGenerations(bpfRoot: string): void {
  const { maps } = pinFolder(bpfRoot);
  const next = nextFolder(bpfRoot);
  if (!existsSync(next)) return;
  if (!existsSync(maps) && oldGenerations(bpfRoot).length > 0) renameSync(next, maps);
  else removeGeneration(next);
}

/** An empty folder for the next generation. */
export function beginGeneration(bpfRoot: string): string {
  const next = nextFolder(bpfRoot);
  removeGeneration(next);
  mkdirSync(next);
  return next;
}

/** The prepared generation takes the place of `maps`. */
export function replaceGeneration(bpfRoot: string, step: (name: string) => void): void {
  const { maps } = pinFolder(bpfRoot);
  const [latest] = oldGenerations(bpfRoot);
  const number =
    latest === undefined ? 1 : Number(OLD.exec(latest.slice(bpfRoot.length + 1))?.[1]) + 1;
  renameSync(maps, join(bpfRoot, `maps-old-${number}`));
  step('replacing');
  renameSync(nextFolder(bpfRoot), maps);
}

export function removeGeneration(folder: string): void {
  for (const pin of pinsIn(folder)) unpin(join(folder, pin));
  try {
    rmdirSync(folder);
  } catch {
    // There is none, or somebody else has put something there.
  }
}

/** Everything but `maps`. */
export function removeOtherGenerations(bpfRoot: string): void {
  for (const folder of [nextFolder(bpfRoot), ...oldGenerations(bpfRoot)]) removeGeneration(folder);
}
