// SPDX-License-Identifier: Apache-2.0
// Composes the history of an agent: off where its directory cannot be written.
import { randomUUID } from 'node:crypto';
import { accessSync, constants, mkdirSync, readFileSync } from 'node:fs';
import type { Agent, SyncFacts } from '../../agent/agent.ts';
import { reasonOf } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import type { Problem } from '../../model/problem.ts';
import type { ObjectChange } from '../../model/types.ts';
import type { HistoryView } from '../../observe/history-view.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import { packageVersion } from '../../sys/package.ts';
import { Recorder } from './recorder.ts';
import { Ring } from './ring.ts';

export interface HistorySettings {
  readonly dir: string;
  /** Somebody has named the directory: that it cannot be written is a problem. */
  readonly isNamed: boolean;
  readonly maxBytes: number;
}

export interface HistoryFollower {
  /** To be called with all that the agent accepts, before it does. */
  arrived(changes: readonly ObjectChange[]): void;
  /** undefined: there is none. */
  view(): HistoryView | undefined;
  problems(): readonly Problem[];
  close(): void;
}

export function openHistory(
  { dir, isNamed, maxBytes }: HistorySettings,
  {
    agent,
    node,
    log,
  }: { readonly agent: Pick<Agent, 'listen'>; readonly node: string; readonly log: Logger },
): HistoryFollower {
  const reason = unwritable(dir);
  if (reason !== undefined) {
    log[isNamed ? 'warn' : 'info']({ dir, reason }, 'no history is kept');
    return {
      arrived: () => undefined,
      view: () => undefined,
      problems: () => (isNamed ? [problemOf(dir, reason)] : []),
      close: () => undefined,
    };
  }
  const recorder = new Recorder({
    ...{ ring: new Ring(dir, maxBytes), dir, clock: SYSTEM_CLOCK, log },
    identity: { boot: bootId(), version: packageVersion(), node },
    uptimeMs: () => Number(process.hrtime.bigint() / 1_000n) / 1_000,
  });
  agent.listen({
    onPlan: (plan) => recorder.planned(plan),
    onSync: (facts: SyncFacts) => recorder.synced(facts),
  });
  return {
    arrived: (changes) => recorder.arrived(changes),
    view: () => recorder.view(),
    problems: () => {
      const { problem } = recorder.view();
      return problem === undefined ? [] : [problemOf(dir, problem)];
    },
    close: () => recorder.close(),
  };
}

function unwritable(dir: string): string | undefined {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    accessSync(dir, constants.W_OK);
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}

/** Where the system has none, each agent is as after a boot of its own: what its clock says is not compared with another's. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return randomUUID();
  }
}

const problemOf = (dir: string, reason: string): Problem => ({
  reason: `the history in ${dir} is not written: ${reason}`,
  isWarning: true,
});
