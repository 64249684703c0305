// SPDX-License-Identifier: Apache-2.0
// Tells when the configuration file says something else than it did. A ConfigMap volume swaps a link
// beside the file, so the folder is watched and the text compared; a slow look of our own catches what
// inotify cannot see (links to other folders).
import { readFileSync, watch } from 'node:fs';
import { dirname } from 'node:path';

const LOOK_EVERY_MS = 60_000;

export interface ConfigWatch {
  /** Looks now, as it does by itself on every event. */
  look(): void;
  /** Idempotent. */
  close(): void;
}

/**
 * @param known text the agent was started with
 * @param onChange called once for each new text, and never for a file that is gone or half-way gone
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

function openWatcher(folder: string, onEvent: () => void): { close(): void } | undefined {
  try {
    const watcher = watch(folder, onEvent);
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    // No inotify left: the timer still looks.
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
