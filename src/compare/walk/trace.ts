// SPDX-License-Identifier: Apache-2.0
// All clients of one destination through all rules, as netfilter leads them: PREROUTING, the routing decision, then INPUT, or
// FORWARD and POSTROUTING; what the node sends itself through OUTPUT and POSTROUTING, and if it is for the node, in again.
import { numberOf } from '../rules/ranges.ts';
import type { Hook } from '../rules/types.ts';
import { throughChain } from './chain.ts';
import { type Matching, those } from './match.ts';
import type { ClientClass, Destination, Path } from './path.ts';

/** @returns every way of every client; the shares of one client add up to 1 */
export function trace(asked: Matching, destination: Destination): readonly Path[] {
  const all = (1n << BigInt(asked.classes.length)) - 1n;
  const sent = those(asked, all, ({ device }) => device === undefined);
  const start = (clients: bigint): readonly Path[] =>
    clients === 0n ? [] : [startOf(clients, destination)];
  return [...start(all & ~sent).flatMap(received(asked)), ...start(sent).flatMap(leaving(asked))];
}

const startOf = (clients: bigint, { address, port }: Destination): Path => ({
  ...{ clients, address, port, share: 1, mark: 0, at: numberOf(address) },
  ...{ isTranslated: false, isMasqueraded: false, remembered: undefined },
  ...{ end: 'accept', trail: undefined },
});

type Onward = (path: Path) => readonly Path[];

/** What is dropped or rejected goes no further. */
const onward = (paths: readonly Path[], next: Onward): readonly Path[] =>
  paths.flatMap((path) => (path.end === 'accept' ? next(path) : [path]));

const received =
  (asked: Matching): Onward =>
  (start) =>
    onward(at(asked, 'prerouting')(start), (path) =>
      asked.world.isLocal(path.address)
        ? at(asked, 'input')(path)
        : onward(at(asked, 'forward')(path), at(asked, 'postrouting')),
    );

const leaving =
  (asked: Matching): Onward =>
  (start) => {
    const back = { ...asked, classes: asked.classes.map(byLoopback) };
    /** Its connection is known already, so chains of type nat are not asked again. */
    const again: Onward = (path) =>
      asked.world.isLocal(path.address)
        ? onward(at(back, 'prerouting', false)(path), at(back, 'input', false))
        : [path];
    return onward(onward(at(asked, 'output')(start), at(asked, 'postrouting')), again);
  };

/** What the node sends itself comes in by this device. */
const byLoopback = (one: ClientClass): ClientClass =>
  one.device === undefined ? { ...one, device: 'lo' } : one;

const at =
  (asked: Matching, hook: Hook, hasNat = true): Onward =>
  (start) => {
    let paths: readonly Path[] = [start];
    for (const { chain, isNat } of asked.program.hooks[hook]) {
      if (isNat && !hasNat) continue;
      // The first chain of type nat that translates is the last one.
      paths = onward(paths, (path) =>
        isNat && hook !== 'postrouting' && path.isTranslated
          ? [path]
          : throughChain(chain, path, asked),
      );
    }
    return paths;
  };
