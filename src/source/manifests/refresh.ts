// SPDX-License-Identifier: Apache-2.0
// A listing of files -> the store, reading only what may have changed.
import type { Listing } from './files.ts';
import { type ManifestStore, putFailure, putText } from './manifest-store.ts';
import { readText } from './text.ts';

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
