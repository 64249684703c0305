// SPDX-License-Identifier: Apache-2.0
// A listing of files -> the store, reading only what may have changed.

import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { reasonOf } from '../../errors.ts';
import type { Listing } from './files.ts';
import { type ManifestStore, putFailure, putText } from './manifest-store.ts';

/** Brings the store up to date with a listing; files whose signature is known are not read again. */
export async function refresh(
  store: ManifestStore,
  listing: Listing,
  signatures: Map<string, string>,
): Promise<void> {
  const present = new Set(listing.found.map(({ path }) => path));
  for (const path of listing.isComplete ? [...store.files.keys()] : []) {
    if (present.has(path) || isBelowFailure(path, listing)) continue;
    store.files.delete(path);
    signatures.delete(path);
  }
  for (const found of listing.found) {
    if (found.kind === 'failure') {
      signatures.delete(found.path);
      putFailure(store, found.path, found.reason);
      continue;
    }
    const { path, signature } = found;
    if (signature !== undefined && signatures.get(path) === signature) continue;
    const result = await readText(path);
    if (result.ok) putText(store, path, result.text);
    else putFailure(store, path, result.reason);
    if (signature === undefined || !result.ok) signatures.delete(path);
    else signatures.set(path, signature);
  }
}

/** A folder that cannot be listed keeps what it had. */
function isBelowFailure(path: string, { found }: Listing): boolean {
  return found.some((entry) => entry.kind === 'failure' && path.startsWith(`${entry.path}/`));
}

/** Larger files are refused unread: they would stop the agent for seconds. 10,000 Services need 10 MB. */
export const LARGEST_FILE_BYTES = 32 * 1024 * 1024;

type TextResult =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: string };

async function readText(path: string): Promise<TextResult> {
  let file: FileHandle | undefined;
  try {
    // Non-blocking: whatever took the place of a file since it was listed (a pipe) must not hang us.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const facts = await file.stat();
    if (!facts.isFile()) return { ok: false, reason: 'is not a file' };
    if (facts.size > LARGEST_FILE_BYTES) {
      const limit = `${LARGEST_FILE_BYTES / 1024 / 1024} MiB`;
      return {
        ok: false,
        reason: `is ${facts.size} bytes long, at most ${limit} are allowed: split the file`,
      };
    }
    return decode(await file.readFile());
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  } finally {
    await file?.close();
  }
}

function decode(bytes: Uint8Array): TextResult {
  if (bytes.includes(0))
    return { ok: false, reason: 'is binary (it has zero bytes): not a manifest' };
  try {
    return { ok: true, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { ok: false, reason: 'is not UTF-8 text' };
  }
}
