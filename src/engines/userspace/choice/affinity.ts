// SPDX-License-Identifier: Apache-2.0
// Session affinity: which backend a client of a service port has had last, and when. Time is given to it.

export interface Affinity {
  /** undefined: none, or its time is over. */
  backendOf(port: string, client: string, timeoutMs: number, nowMs: number): string | undefined;
  note(port: string, client: string, backend: string, nowMs: number): void;
  /** Forgets service ports that are not among these, and clients whose time is over. @param timeouts ms by service port */
  keep(timeouts: ReadonlyMap<string, number>, nowMs: number): void;
}

interface Remembered {
  readonly backend: string;
  readonly atMs: number;
}

/** Of one service port: the client that connected longest ago is forgotten. */
const MOST_CLIENTS = 65_536;

export function createAffinity(mostClients = MOST_CLIENTS): Affinity {
  /** Clients in the order in which they connected last. */
  const ports = new Map<string, Map<string, Remembered>>();
  return {
    backendOf(port, client, timeoutMs, nowMs) {
      const found = ports.get(port)?.get(client);
      return found !== undefined && nowMs - found.atMs < timeoutMs ? found.backend : undefined;
    },
    note(port, client, backend, nowMs) {
      const clients = ports.get(port) ?? new Map<string, Remembered>();
      ports.set(port, clients);
      clients.delete(client);
      clients.set(client, { backend, atMs: nowMs });
      const [oldest] = clients.keys();
      if (clients.size > mostClients && oldest !== undefined) clients.delete(oldest);
    },
    keep(timeouts, nowMs) {
      for (const [port, clients] of ports) {
        const timeoutMs = timeouts.get(port);
        if (timeoutMs === undefined) {
          ports.delete(port);
          continue;
        }
        for (const [client, { atMs }] of clients) {
          if (nowMs - atMs < timeoutMs) break;
          clients.delete(client);
        }
      }
    },
  };
}
