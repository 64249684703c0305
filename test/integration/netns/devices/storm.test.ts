// SPDX-License-Identifier: Apache-2.0
// Many devices in a loop, which are renamed, get a master or go while programs are being attached to them.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeNamespace, type State, type TestNamespace } from './support/namespace.ts';

const PAIRS = 200;
/** How fast it is, bench/ measures; this is for a machine with other work. */
const SERVED_MS = 60_000;

let namespace: TestNamespace;
beforeEach(async () => {
  namespace = makeNamespace();
  await namespace.ip('link del v0', 'link add bridge type bridge', 'link set bridge up');
});
afterEach(() => namespace.release());

interface Fate {
  readonly lines: readonly string[];
  /** Of the pair, those that have programs in the end. */
  readonly attached: readonly string[];
}

function fateOf(n: number): Fate {
  const [one, other] = [`s${n}`, `t${n}`];
  switch (n % 4) {
    case 0:
      return { lines: [], attached: [one, other] };
    case 1:
      return { lines: [`link set ${one} name r${n}`], attached: [`r${n}`, other] };
    case 2:
      return { lines: [`link set ${one} master bridge`], attached: [other] };
    default:
      return { lines: [`link del ${one}`], attached: [] };
  }
}

test(`${PAIRS} pairs that come and change at once are served, each as it ends`, async () => {
  const follower = await namespace.follow();
  const fates = Array.from({ length: PAIRS }, (_, n) => fateOf(n));
  const make = (n: number): string[] => [
    `link add s${n} type veth peer name t${n}`,
    `link set s${n} up`,
    `link set t${n} up`,
  ];
  // What becomes of a pair comes three pairs later: the follower is then about to attach its programs.
  const lines = fates.flatMap((_, n) => [...make(n), ...(fates[n - 3]?.lines ?? [])]);
  await namespace.ip(...lines, ...fates.slice(-3).flatMap((fate) => fate.lines));
  const wanted = ['bridge', ...fates.flatMap(({ attached }) => attached)].sort();
  const attached = ({ devices }: State): string[] =>
    devices.flatMap(({ name, isAttached }) => (isAttached ? [name] : [])).sort();
  const state = await follower.until(
    { what: 'all of them', timeoutMs: SERVED_MS },
    (now) => JSON.stringify(attached(now)) === JSON.stringify(wanted),
  );
  expect(state.devices.filter(({ isFailed }) => isFailed)).toEqual([]);
  const pins = wanted.flatMap((name) => [`fl_egress@${name}`, `fl_ingress@${name}`]).sort();
  expect([...state.pins].sort()).toEqual(pins);
  const known = state.devices.filter(({ isAttached }) => isAttached).map(({ ifindex }) => ifindex);
  const entries = state.table.map(({ ifindex }) => ifindex);
  expect(entries.sort((a, b) => a - b)).toEqual(known.sort((a, b) => a - b));
});
