// SPDX-License-Identifier: Apache-2.0
// A temporary folder of manifests, and a live source whose calls are written down.
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { refText } from '../../../../src/model/object-ref.ts';
import { type Problem, problemText } from '../../../../src/model/problem.ts';
import type { ObjectChange } from '../../../../src/model/types.ts';
import { type ManifestSource, openManifests } from '../../../../src/source/manifests/manifests.ts';

/** Long enough for a machine with other work: it costs time only where a test fails. */
const DEADLINE_MS = 30_000;

export interface Folder {
  readonly path: string;
  write(name: string, text: string): Promise<void>;
  /** As editors save: a new file takes the name of the old one. */
  replace(name: string, text: string): Promise<void>;
}

/** Removed when the test ends. */
export async function folder(files: Readonly<Record<string, string>> = {}): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), 'fairlead-manifests-'));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  const write = async (name: string, text: string): Promise<void> => {
    await mkdir(dirname(join(path, name)), { recursive: true });
    await writeFile(join(path, name), text);
  };
  for (const [name, text] of Object.entries(files)) await write(name, text);
  return {
    path,
    write,
    async replace(name, text) {
      await writeFile(join(path, `${name}.new`), text);
      await rename(join(path, `${name}.new`), join(path, name));
    },
  };
}

/** `put Service default/web` and so on. */
export function changeTexts(changes: readonly ObjectChange[]): readonly string[] {
  return changes.map(({ type, ref }) => `${type} ${refText(ref)}`);
}

/** Problems with paths as seen from the folder. */
export function problemTexts(path: string, problems: readonly Problem[]): readonly string[] {
  return problems.map((problem) => problemText(problem).replaceAll(`${path}/`, ''));
}

export interface Recording {
  readonly source: ManifestSource;
  readonly changes: ObjectChange[];
  /** What happened, in order: changes as text, and `synced`. */
  readonly events: string[];
  /** Waits until the condition holds, looking again after every call of the source. */
  until(condition: () => boolean, what: string): Promise<void>;
}

export function record(path: string, removalDelayMs = 0): Recording {
  const changes: ObjectChange[] = [];
  const events: string[] = [];
  let wake: () => void = () => {};
  const listener = {
    onChanges(batch: readonly ObjectChange[]) {
      changes.push(...batch);
      events.push(...changeTexts(batch));
      wake();
    },
    onSynced() {
      events.push('synced');
      wake();
    },
    onProblems: () => wake(),
  };
  const source = openManifests(path, listener, { removalDelayMs });
  onTestFinished(() => source.close());
  return {
    source,
    changes,
    events,
    async until(condition, what) {
      const deadline = performance.now() + DEADLINE_MS;
      while (!condition()) {
        const leftMs = deadline - performance.now();
        if (leftMs <= 0) {
          const seen = [...events, ...problemTexts(path, source.problems())].join('\n');
          throw new Error(`waited in vain for: ${what}\n${seen}`);
        }
        let timer: NodeJS.Timeout | undefined;
        await new Promise<void>((done) => {
          wake = done;
          timer = setTimeout(done, leftMs);
        });
        clearTimeout(timer);
      }
    },
  };
}

export const service = (name: string, port = 80, extra = ''): string =>
  `apiVersion: v1\nkind: Service\nmetadata:\n  name: ${name}\n${extra}spec:\n  ports:\n  - port: ${port}\n`;

export const slice = (owner: string): string =>
  `apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: ${owner}-1\n  labels: {kubernetes.io/service-name: ${owner}}\naddressType: IPv4\nendpoints: [{addresses: [10.1.1.5]}]\n`;
