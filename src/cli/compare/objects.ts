// SPDX-License-Identifier: Apache-2.0
// All objects, read once: a folder of manifests, or the lists of an API server.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { LoadedConfig } from '../../config/load.ts';
import { FairleadError } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import { problemText } from '../../model/problem.ts';
import type { ObjectChange } from '../../model/types.ts';
import { readManifests } from '../../source/manifests/manifests.ts';
import type { Source } from '../../source/source.ts';
import { say } from '../output.ts';
import { apiServerOf } from '../source.ts';

/** Throws NO_MANIFESTS, NO_API_SERVER, BAD_KUBECONFIG, TIMED_OUT. */
export async function readObjects(
  loaded: LoadedConfig,
  log: Logger,
  timeoutMs: number,
): Promise<readonly ObjectChange[]> {
  const { source } = loaded.config;
  if (source.kind === 'manifests') {
    const dir = resolve(source.dir);
    if (!existsSync(dir))
      throw new FairleadError('NO_MANIFESTS', `--manifests ${dir} does not exist`);
    const { changes, problems } = await readManifests(dir);
    for (const problem of problems) say(problemText(problem));
    return changes;
  }
  const opened = (await apiServerOf(loaded, source, log))();
  const changes: ObjectChange[] = [];
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((isListed, reject) => {
      const giveUp = (): void => reject(incomplete(opened));
      timer = setTimeout(giveUp, timeoutMs);
      opened.start({
        onChanges: (some) => void changes.push(...some),
        onSynced: isListed,
        onProblems: () => undefined,
      });
    });
  } finally {
    clearTimeout(timer);
    opened.close();
  }
  return changes;
}

function incomplete(source: Source): FairleadError {
  const [problem] = source.problems();
  const why = problem === undefined ? '' : `: ${problem.reason}`;
  return new FairleadError('TIMED_OUT', `the lists of ${source.location} are not complete${why}`);
}
