// SPDX-License-Identifier: Apache-2.0
// --ready-file: tells whoever looks into this container that its own agent is ready. Where two agents share the network of a node, a
// port is answered by either of them.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { FairleadError, reasonOf } from '../errors.ts';
import type { Logger } from '../log.ts';

export interface ReadyFile {
  write(): void;
  remove(): void;
}

/** That of an agent that was killed goes at once. Throws BAD_OPTION. */
export function createReadyFile(asked: string | undefined, log: Pick<Logger, 'warn'>): ReadyFile {
  if (asked === undefined) return { write: () => undefined, remove: () => undefined };
  const path = resolve(asked);
  try {
    mkdirSync(dirname(path), { recursive: true });
    rmSync(path, { force: true });
  } catch (error) {
    throw new FairleadError(
      'BAD_OPTION',
      `--ready-file ${path} cannot be used: ${reasonOf(error)}`,
    );
  }
  return {
    write() {
      try {
        writeFileSync(path, `${process.pid}\n`);
      } catch (error) {
        log.warn({ path, reason: reasonOf(error) }, 'ready file not written');
      }
    },
    remove: () => rmSync(path, { force: true }),
  };
}
