// SPDX-License-Identifier: Apache-2.0
// A manifest file's bytes -> its text, or why not.
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { reasonOf } from '../../errors.ts';

/** Larger files are refused unread: they would stop the agent for seconds. 10,000 Services need 10 MB. */
export const LARGEST_FILE_BYTES = 32 * 1024 * 1024;

export type TextResult =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: string };

export async function readText(path: string): Promise<TextResult> {
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
