// SPDX-License-Identifier: Apache-2.0
// Which port of 127.0.0.1 stands for a frontend: the one that it had, else one that follows from its key, so that it is the same
// after a restart that has lost its memory; or the next one if that is taken. Pure.
//   preferredPorts('IPv4 10.96.0.10:80/TCP', remembered, taken) -> 23817, 23818, …
import { murmur3 } from '../../../lib/murmur3.ts';

/** Below the ports that the kernel gives to connections (32768), and below those of NodePorts. */
const FIRST = 20_000;
const COUNT = 10_000;

/** So many are tried in one sync. */
const TRIES = 32;

/** By the key of a listener. */
export type PortMap = ReadonlyMap<string, number>;

/** In the order in which they are to be tried. @param taken by other frontends of this protocol */
export function preferredPorts(
  key: string,
  remembered: number | undefined,
  taken: ReadonlySet<number>,
): readonly number[] {
  const start = murmur3(key, 0) % COUNT;
  const derived: number[] = [];
  for (let step = 0; step < COUNT && derived.length < TRIES; step += 1) {
    const port = FIRST + ((start + step) % COUNT);
    if (port !== remembered && !taken.has(port)) derived.push(port);
  }
  return remembered === undefined ? derived : [remembered, ...derived];
}

/** What a file of it may contain: other entries are left out. */
export function portMapOf(value: unknown): PortMap {
  const found = new Map<string, number>();
  if (typeof value !== 'object' || value === null) return found;
  for (const [key, port] of Object.entries(value)) {
    if (Number.isInteger(port) && port >= FIRST && port < FIRST + COUNT) found.set(key, port);
  }
  return found;
}
