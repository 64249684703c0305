// SPDX-License-Identifier: Apache-2.0
// One watch per folder, for exactly the folders that matter. Node's recursive watch is not
// used: on Linux it follows no links and misses folders that are replaced.
import { type FSWatcher, watch } from 'node:fs';
import { reasonOf } from '../../errors.ts';

export interface FolderWatches {
  /** Watches the folder from now on; a new identity means that another folder took the path. */
  add(path: string, identity: string): void;
  /** Lets go of every folder that is not in the map. */
  keepOnly(folders: ReadonlyMap<string, string>): void;
  /** Folders the kernel will not watch for us, and why. */
  failures(): ReadonlyMap<string, string>;
  close(): void;
}

export function openFolderWatches(onEvent: () => void): FolderWatches {
  const watches = new Map<string, { readonly identity: string; readonly watcher: FSWatcher }>();
  const failures = new Map<string, string>();

  const drop = (path: string): void => {
    watches.get(path)?.watcher.close();
    watches.delete(path);
  };

  return {
    add(path, identity) {
      if (watches.get(path)?.identity === identity) return;
      drop(path);
      failures.delete(path);
      try {
        const watcher = watch(path, { persistent: true }, () => onEvent());
        watcher.on('error', () => {
          drop(path);
          onEvent();
        });
        watches.set(path, { identity, watcher });
      } catch (error) {
        failures.set(path, reasonOf(error));
      }
    },
    keepOnly(folders) {
      for (const path of [...watches.keys()]) if (!folders.has(path)) drop(path);
      for (const path of [...failures.keys()]) if (!folders.has(path)) failures.delete(path);
    },
    failures: () => failures,
    close() {
      for (const path of [...watches.keys()]) drop(path);
    },
  };
}
