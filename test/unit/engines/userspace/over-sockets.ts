// SPDX-License-Identifier: Apache-2.0
// A userspace dataplane in this process, over real sockets that end with the test.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { userspaceCapabilities } from '../../../../src/engines/capabilities.ts';
import type { Dataplane } from '../../../../src/engines/dataplane.ts';
import type { AddressKeeper } from '../../../../src/engines/userspace/kernel/addresses.ts';
import { createUserspaceDataplane } from '../../../../src/engines/userspace/kernel/dataplane.ts';
import { filesOf, type Shortage } from '../../../../src/engines/userspace/kernel/files.ts';
import type { Remembered } from '../../../../src/engines/userspace/kernel/memory.ts';
import { type ListenTcp, streamedTcp } from '../../../../src/engines/userspace/kernel/tcp.ts';
import type { Clock } from '../../../../src/lib/clock.ts';
import { SYSTEM_CLOCK } from '../../../../src/sys/clock.ts';

const closers: (() => void)[] = [];

export function closeAll(): void {
  for (const close of closers.splice(0)) close();
}

/** Is closed after the test, if it has not been. */
export function tracked<T extends object>(resource: T): T {
  closers.push(() => {
    if ('destroy' in resource && typeof resource.destroy === 'function') resource.destroy();
    else if ('close' in resource && typeof resource.close === 'function') {
      try {
        resource.close();
      } catch {
        // It is closed already.
      }
    }
  });
  return resource;
}

export interface OpenedParts {
  readonly remembered?: Remembered;
  readonly clock?: Clock;
  readonly addresses?: AddressKeeper;
  readonly listenTcp?: ListenTcp;
  readonly endTcp?: () => void;
  readonly onShed?: (why: Shortage) => void;
  /** Of the process. */
  readonly limit?: number;
}

export function opened({
  remembered,
  clock = SYSTEM_CLOCK,
  addresses,
  listenTcp = streamedTcp,
  endTcp,
  onShed = () => undefined,
  limit = 4096,
}: OpenedParts = {}): {
  readonly dataplane: Dataplane;
  readonly remembered: () => Remembered;
} {
  let kept: Remembered = remembered ?? { ports: new Map(), addresses: new Set() };
  const dataplane = createUserspaceDataplane({
    capabilities: userspaceCapabilities(addresses === undefined ? 'port-map' : 'addresses'),
    installation: { hooks: [], refusesWith: 'ECONNREFUSED', refused: [] },
    clock,
    memory: {
      read: () => kept,
      write: (next) => {
        kept = next;
        return true;
      },
    },
    ...{ addresses, listenTcp, endTcp, onShed, files: filesOf(limit) },
  });
  return { dataplane: tracked(dataplane), remembered: () => kept };
}

/** `127.0.0.1:23817` of the first frontend that is mapped. */
export async function reachedAt(dataplane: Dataplane): Promise<string> {
  const { frontends } = await dataplane.snapshot();
  const found = frontends.find((one) => one.reachedAt !== undefined)?.reachedAt;
  if (found === undefined) throw new Error('no frontend is mapped');
  return found;
}

/** Connects; rejects with the error of connect(). */
export async function dial(target: string): Promise<Socket> {
  const [host = '', port] = target.split(':');
  const socket = tracked(connect({ host, port: Number(port), allowHalfOpen: true }));
  await once(socket, 'connect');
  return socket;
}

/** What it still says, until it ends. */
export async function textOf(socket: Socket): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of socket) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}
