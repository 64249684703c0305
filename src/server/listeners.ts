// SPDX-License-Identifier: Apache-2.0
// The two servers of an agent, health and metrics: opened, retried while their ports are in use, closed.
import type { RequestListener } from 'node:http';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import type { ListenAddress } from '../config/addresses.ts';
import type { Logger } from '../log.ts';
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

export type Interfaces = Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>;

/**
 * `0.0.0.0` means every family that the node has, as in kube-proxy: Go's net.Listen binds one socket for both.
 * `127.0.0.1` alone would not be found by a client of a node without IPv4, whose localhost is `::1`.
 * @param interfaces those of os.networkInterfaces(), which has no interface of a family that is off
 */
export function bindHosts(host: string, interfaces: Interfaces): readonly string[] {
  const addresses = Object.values(interfaces).flatMap((all) => all ?? []);
  const hasIpv6 = addresses.some(({ family }) => family === 'IPv6');
  if (host === '0.0.0.0' && hasIpv6) return ['::'];
  if (host !== '127.0.0.1' || !hasIpv6) return [host];
  const ofIpv4 = addresses.filter(({ family }) => family === 'IPv4');
  if (ofIpv4.length === 0) return ['::1'];
  return ofIpv4.every(({ internal }) => internal) ? [host, '::1'] : [host];
}
