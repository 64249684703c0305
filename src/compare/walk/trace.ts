// SPDX-License-Identifier: Apache-2.0
// All clients of one destination through all rules, as netfilter leads them: PREROUTING, the routing decision, then INPUT, or
// FORWARD and POSTROUTING; what the node sends itself through OUTPUT and POSTROUTING, and if it is for the node, in again.
import { numberOf } from '../rules/ranges.ts';
import type { Hook } from '../rules/types.ts';
import { throughChain } from './chain.ts';
import { type Matching, those } from './match.ts';
import { bitOf, type ClientClass, type Destination, type Path } from './path.ts';

/** @returns every way of every client; the shares of one client add up to 1 */
export function trace(asked: Matching, destination: Destination): readonly Path[] {
  const all = bitOf(asked.classes.length) - 1n;
  const sent = those(asked, all, ({ device }) => device === undefined);
  const comes = all & ~sent;
  return [
    ...(comes === 0n ? [] : received(asked, startOf(comes, destination))),
    ...(sent === 0n ? [] : leaving(asked, startOf(sent, destination))),
  ];
}

const startOf = (clients: bigint, { address, port }: Destination): Path => ({
  clients,
  share: 1,
  mark: 0,
  address,
  at: numberOf(address),
  port,
  isTranslated: false,
  isMasqueraded: false,
  remembered: undefined,
  end: 'accept',
  trail: undefined,
});

function received(asked: Matching, start: Path): readonly Path[] {
  const found: Path[] = [];
  for (const path of through(asked, 'prerouting', [start])) {
    if (path.end !== 'accept') found.push(path);
    else if (asked.world.isLocal(path.address)) found.push(...delivered(asked, path));
    else found.push(...through(asked, 'postrouting', through(asked, 'forward', [path])));
  }
  return found;
}

/** What IPVS translates has come to the node, and leaves it like what the node sends itself. */
function delivered(asked: Matching, path: Path): readonly Path[] {
  return through(asked, 'input', [path]).flatMap((one) =>
    one.end === 'accept' && !asked.world.isLocal(one.address)
      ? through(asked, 'postrouting', through(asked, 'output', [one]))
      : [one],
  );
}

function leaving(asked: Matching, start: Path): readonly Path[] {
  const found: Path[] = [];
  let back: Matching | undefined;
  for (const path of through(asked, 'postrouting', through(asked, 'output', [start]))) {
    if (path.end !== 'accept' || !asked.world.isLocal(path.address)) {
      found.push(path);
      continue;
    }
    back ??= { ...asked, classes: asked.classes.map(byLoopback) };
    // Its connection is known already, so chains of type nat are not asked again.
    const again = through(back, 'prerouting', [path], false);
    found.push(...through(back, 'input', again, false));
  }
  return found;
}

/** What the node sends itself comes in by this device. */
const byLoopback = (one: ClientClass): ClientClass =>
  one.device === undefined ? { ...one, device: 'lo' } : one;

/** What is dropped or rejected goes no further. */
function through(
  asked: Matching,
  hook: Hook,
  start: readonly Path[],
  hasNat = true,
): readonly Path[] {
  let paths = start;
  for (const { chain, isNat } of asked.program.hooks[hook]) {
    if (isNat && !hasNat) continue;
    const next: Path[] = [];
    for (const path of paths) {
      // The first chain of type nat that translates is the last one.
      const isDone =
        path.end !== 'accept' || (isNat && hook !== 'postrouting' && path.isTranslated);
      if (isDone) next.push(path);
      else throughChain(chain, path, asked, next);
    }
    paths = next;
  }
  return paths;
}
