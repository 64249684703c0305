// SPDX-License-Identifier: Apache-2.0
// Reports when the text of the configuration file changes, or of one that it names. A ConfigMap or Secret volume
// swaps a link beside the file, so the folder is watched and the text compared; a slow poll catches what inotify
// cannot see (links to other folders).
import { readFileSync, watch } from 'node:fs';
import { dirname } from 'node:path';

const LOOK_EVERY_MS = 60_000;

export interface ConfigWatch {
  /** Compares now, as on every event. */
  look(): void;
  /** Idempotent. */
  close(): void;
}

/**
 * @param known text the agent was started with
 * @param onChange called once for each new text; never for a file that is gone or being replaced
 */
export function watchConfigFile(
  path: string,
  known: string,
  onChange: (text: string) => void,
): ConfigWatch {
  let last = known;
  const look = (): void => {
    const text = textOf(path);
    if (text === undefined || text === last) return;
    last = text;
    onChange(text);
  };
  const watcher = openWatcher(dirname(path), look);
  const timer = setInterval(look, LOOK_EVERY_MS);
  return {
    look,
    close() {
      clearInterval(timer);
      watcher?.close();
    },
  };
}

/** A file that is read by a part which has no files of its own. */
export const watchedFile = (path: string) => ({
  path,
  read: () => readFileSync(path, 'utf8'),
  follow: (known: string, onChange: (text: string) => void): ConfigWatch =>
    watchConfigFile(path, known, onChange),
});

function openWatcher(folder: string, onEvent: () => void): { close(): void } | undefined {
  try {
    const watcher = watch(folder, onEvent);
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    // No inotify instance left: the timer still polls.
    return undefined;
  }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
