// SPDX-License-Identifier: Apache-2.0
// Connections and UDP flows: how many each frontend has got, refused and dropped, and how many each backend has now.

export interface FrontendCount {
  connections: number;
  refused: number;
  dropped: number;
  affinityHits: number;
}

export interface BackendCount {
  connections: number;
  open: number;
}

export interface Counts {
  /** By the key of a listener; made if it is not there. */
  of(listener: string): FrontendCount;
  /** Undefined: it has had none. */
  backend(port: string, backend: string): Readonly<BackendCount> | undefined;
  /** @returns to be called once, when it has ended */
  opened(port: string, backend: string): () => void;
  /** Of all backends. */
  open(): number;
  /** Called at the next end of a connection after which none is open; one at a time. */
  onNoneOpen(listener: () => void): void;
  /** Those of other listeners and service ports are forgotten; of backends with open connections none. */
  keep(listeners: ReadonlySet<string>, ports: ReadonlySet<string>): void;
}

export function createCounts(): Counts {
  const frontends = new Map<string, FrontendCount>();
  const ports = new Map<string, Map<string, BackendCount>>();

  let open = 0;
  let onNoneOpen = (): void => undefined;

  function countOf(port: string, backend: string): BackendCount {
    const backends = ports.get(port) ?? new Map<string, BackendCount>();
    ports.set(port, backends);
    const count = backends.get(backend) ?? { connections: 0, open: 0 };
    backends.set(backend, count);
    return count;
  }

  return {
    of(listener) {
      const known = frontends.get(listener);
      if (known !== undefined) return known;
      const count = { connections: 0, refused: 0, dropped: 0, affinityHits: 0 };
      frontends.set(listener, count);
      return count;
    },
    backend: (port, backend) => ports.get(port)?.get(backend),
    opened(port, backend) {
      const count = countOf(port, backend);
      count.connections += 1;
      count.open += 1;
      open += 1;
      return () => {
        count.open -= 1;
        open -= 1;
        if (open === 0) onNoneOpen();
      };
    },
    open: () => open,
    onNoneOpen(listener) {
      onNoneOpen = listener;
    },
    keep(listeners, kept) {
      for (const key of frontends.keys()) if (!listeners.has(key)) frontends.delete(key);
      for (const [port, backends] of ports) {
        const isOpen = [...backends.values()].some(({ open }) => open > 0);
        if (!kept.has(port) && !isOpen) ports.delete(port);
      }
    },
  };
}
