// SPDX-License-Identifier: Apache-2.0
// When an agent can answer for itself: its initial sync is complete, and so are its health check ports.

import type { Agent } from '../agent/agent.ts';
import type { Servers } from '../server/servers.ts';

export interface ServingParts {
  readonly agent: Pick<Agent, 'listen'>;
  readonly servers: Pick<Servers, 'portsSynced'>;
  /** Called once. */
  readonly onServing: () => void;
  /** While a Service cannot be programmed, its ports and those of all others are not known. */
  readonly longestWaitMs?: number;
}

const MAX_WAIT_MS = 10_000;

/** To be called after the servers have begun to listen to the agent. */
export function whenServing({
  agent,
  servers,
  onServing,
  longestWaitMs = MAX_WAIT_MS,
}: ServingParts): { close(): void } {
  let hasFull = false;
  let isDone = false;
  let timer: NodeJS.Timeout | undefined;
  const done = (): void => {
    clearTimeout(timer);
    if (isDone) return;
    isDone = true;
    onServing();
  };
  agent.listen({
    onSync: ({ isFull, isComplete }) => {
      hasFull ||= isFull;
      if (!hasFull || isDone) return;
      if (isComplete) servers.portsSynced().then(done, done);
      else timer ??= setTimeout(done, longestWaitMs);
    },
  });
  return {
    close: () => {
      isDone = true;
      clearTimeout(timer);
    },
  };
}
