// SPDX-License-Identifier: Apache-2.0
// What the fields of each pinned map are, for the next version of fairlead, which may have another layout: the kernel
// shows the types of a map only to CAP_SYS_ADMIN. <bpf-root>/layouts/<pin> is a symbolic link whose target is the text.
import {
  mkdirSync,
  readdirSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { codeOf } from '../../errors.ts';

export interface MapFields {
  readonly key: string;
  readonly value: string;
}

const folderOf = (bpfRoot: string): string => join(bpfRoot, 'layouts');

/** undefined: the version that pinned the map left none. */
export function readFields(bpfRoot: string, pin: string): MapFields | undefined {
  try {
    const [key = '', value = ''] = readlinkSync(join(folderOf(bpfRoot), pin)).split('|');
    return { key, value };
  } catch {
    return undefined;
  }
}

/** A version of a map has one layout: what is there already is right. */
export function writeFields(bpfRoot: string, pin: string, { key, value }: MapFields): void {
  mkdirSync(folderOf(bpfRoot), { recursive: true });
  try {
    symlinkSync(`${key}|${value}`, join(folderOf(bpfRoot), pin));
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

const CHECKED = 'checked';

/** What the maps were compared with last, as a text; undefined: with nothing yet. */
export function readChecked(bpfRoot: string): string | undefined {
  try {
    return readlinkSync(join(folderOf(bpfRoot), CHECKED));
  } catch {
    return undefined;
  }
}

export function writeChecked(bpfRoot: string, text: string): void {
  const path = join(folderOf(bpfRoot), CHECKED);
  mkdirSync(folderOf(bpfRoot), { recursive: true });
  rmSync(path, { force: true });
  symlinkSync(text, path);
}

/** All of them, or those of pins that are not kept. */
export function removeFields(
  bpfRoot: string,
  isKept: (pin: string) => boolean = () => false,
): void {
  const folder = folderOf(bpfRoot);
  try {
    for (const pin of readdirSync(folder)) if (!isKept(pin)) unlinkSync(join(folder, pin));
    rmdirSync(folder);
  } catch {
    // There are none, or some are kept.
  }
}
