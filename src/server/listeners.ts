// SPDX-License-Identifier: Apache-2.0
// The two servers of an agent, health and metrics: opened, retried while their ports are in use, closed.
import type { RequestListener } from 'node:http';
import { networkInterfaces } from 'node:os';
import type { ListenAddress } from '../config/addresses.ts';
import type { Logger } from '../log.ts';
import { bindHosts } from './bind-hosts.ts';
import type { EventReason } from './events/event.ts';
import type { EventRecorder } from './events/recorder.ts';
import type { Listen } from './http/listen.ts';
import { listenWithRetry, type RetryingListener } from './http/retry-listen.ts';

export interface ServerSpec {
  readonly name: 'healthz' | 'metrics';
  /** undefined = disabled. */
  readonly at: ListenAddress | undefined;
  readonly failureEvent: EventReason;
  readonly onRequest: RequestListener;
}

export interface Listeners {
  /** Enabled servers, by name. */
  listening(): Readonly<Record<string, boolean>>;
  close(): void;
}

export interface ListenersParts {
  readonly isBindFailureFatal: boolean;
  readonly nodeName: string;
  readonly events: EventRecorder;
  readonly listen: Listen;
  readonly log: Logger;
}

/** Rejects with BAD_OPTION if a port is in use and `isBindFailureFatal`. */
export async function openListeners(
  specs: readonly ServerSpec[],
  { isBindFailureFatal, nodeName, events, listen, log }: ListenersParts,
): Promise<Listeners> {
  const listeners: (readonly [name: string, listener: RetryingListener])[] = [];
  for (const { name, at, failureEvent, onRequest } of specs) {
    if (at === undefined) continue;
    const onRefused = (message: string): void => {
      log.warn({ server: name, reason: message }, 'server not listening, will retry');
      events.record(failureEvent, { kind: 'Node', name: nodeName }, message);
    };
    for (const host of bindHosts(at.host, networkInterfaces())) {
      const options = { name, host, port: at.port, onRequest, onRefused };
      const listener = await listenWithRetry({ ...options, isFatal: isBindFailureFatal }, listen);
      listeners.push([name, listener]);
    }
  }
  return {
    listening: () =>
      Object.fromEntries(
        listeners.map(([name]) => [
          name,
          listeners.every(([other, server]) => other !== name || server.port() !== undefined),
        ]),
      ),
    close() {
      for (const [, server] of listeners) void server.close();
    },
  };
}
