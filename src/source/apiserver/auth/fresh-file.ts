// SPDX-License-Identifier: Apache-2.0
// A file whose content is wanted as it is now: read again when its times, size or inode changed, as the
// kubelet's atomic swap of projected tokens and CA bundles does.
import { readFile, stat } from 'node:fs/promises';

export interface FreshFile {
  /** Rejects if it cannot be read and never was; else the last good text is better than none. */
  text(): Promise<string>;
  /** Reads it again next time whatever its times say. */
  forget(): void;
}

export function freshFile(path: string): FreshFile {
  let signature = '';
  let text: string | undefined;
  return {
    async text() {
      try {
        const { mtimeNs, size, ino } = await stat(path, { bigint: true });
        const now = `${mtimeNs}:${size}:${ino}`;
        if (text === undefined || now !== signature) {
          text = await readFile(path, 'utf8');
          signature = now;
        }
      } catch (error) {
        if (text === undefined) throw error;
      }
      return text;
    },
    forget() {
      signature = '';
    },
  };
}
