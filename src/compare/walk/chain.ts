// SPDX-License-Identifier: Apache-2.0
// Paths through one chain of rules, and those that it leads to.
import { numberOf } from '../rules/ranges.ts';
import type { Action, Rule } from '../rules/types.ts';
import { candidates } from './candidates.ts';
import { keyOf, type Matching, matching } from './match.ts';
import { bitOf, type Path, type Trail } from './path.ts';

/** Where paths go on. Lists are filled in place: a walk has some hundred paths for each destination. */
interface Sinks {
  /** The rule after this one. */
  readonly next: Path[];
  /** The rule after the one that jumped here. */
  readonly returned: Path[];
  /** No further rule of the hook. */
  readonly ended: Path[];
}

/** Kernels allow 16. */
const MOST_JUMPS = 32;

/** Adds where each path is when the chain has ended, or has said what becomes of it. */
export function throughChain(chain: string, start: Path, asked: Matching, found: Path[]): void {
  walk(chain, start, { asked, depth: 0 }, found, found);
}

interface Walking {
  readonly asked: Matching;
  readonly depth: number;
}

function walk(
  chain: string,
  start: Path,
  { asked, depth }: Walking,
  returned: Path[],
  ended: Path[],
): void {
  if (depth > MOST_JUMPS) {
    returned.push(start);
    return;
  }
  const rules = asked.program.chains.get(chain) ?? [];
  const inner = { asked, depth: depth + 1 };
  let open: readonly Path[] = [start];
  for (const rule of candidates(rules, start.at, start.port)) {
    open = through(rule, open, inner, returned, ended);
    if (open.length === 0) return;
  }
  returned.push(...open);
}

/** @returns the paths that come to the next rule; the same list if the rule matches none */
function through(
  rule: Rule,
  open: readonly Path[],
  walking: Walking,
  returned: Path[],
  ended: Path[],
): readonly Path[] {
  let next: Path[] | undefined;
  for (let index = 0; index < open.length; index += 1) {
    const path = open[index];
    if (path === undefined) continue;
    const clients = matchedBy(rule, path, walking.asked);
    if (clients === 0n) {
      next?.push(path);
      continue;
    }
    next ??= open.slice(0, index);
    match(rule, path, clients, walking, { next, returned, ended });
  }
  return next ?? open;
}

function matchedBy({ tests, isForeign }: Rule, path: Path, asked: Matching): bigint {
  // What becomes of a packet that is translated already is the same for every proxy.
  if (isForeign && path.isTranslated) return 0n;
  let { clients } = path;
  for (const test of tests) {
    clients = matching(test, path, clients, asked);
    if (clients === 0n) break;
  }
  return clients;
}

/** Clients that the rule does not match go on; of those that it matches in a share of cases, the rest does. */
function match(rule: Rule, path: Path, clients: bigint, walking: Walking, sinks: Sinks): void {
  const others = path.clients & ~clients;
  const { trail } = path;
  if (others !== 0n) sinks.next.push(pathOf(path, others, path.share, trail));
  let share = 1;
  for (const test of rule.tests) if (test.kind === 'share') share *= test.share;
  if (share < 1) sinks.next.push(pathOf(path, clients, path.share * (1 - share), trail));
  const matched = pathOf(path, clients, path.share * share, { rule, before: trail });
  act(rule.actions, matched, walking, sinks);
}

/** Field by field: it takes a third of the time of a spread, and most of a walk is this. */
const pathOf = (path: Path, clients: bigint, share: number, trail: Trail | undefined): Path => ({
  clients,
  share,
  mark: path.mark,
  address: path.address,
  at: path.at,
  port: path.port,
  isTranslated: path.isTranslated,
  isMasqueraded: path.isMasqueraded,
  remembered: path.remembered,
  end: path.end,
  trail,
});

function act(actions: readonly Action[], start: Path, walking: Walking, sinks: Sinks): void {
  let open: readonly Path[] = [start];
  for (const action of actions) {
    const next: Path[] = [];
    for (const path of open) take(action, path, walking, { ...sinks, next });
    open = next;
  }
  sinks.next.push(...open);
}

function take(action: Action, path: Path, walking: Walking, sinks: Sinks): void {
  const { next, returned, ended } = sinks;
  switch (action.kind) {
    case 'jump':
      walk(action.chain, path, walking, next, ended);
      return;
    case 'goto':
      walk(action.chain, path, walking, returned, ended);
      return;
    case 'return':
      returned.push(path);
      return;
    case 'accept':
      ended.push(path);
      return;
    case 'drop':
    case 'reject':
      ended.push({ ...path, end: action.kind });
      return;
    case 'dnat': {
      const share = path.share / action.to.length;
      for (const { address, port = path.port } of action.to)
        ended.push({ ...path, address, at: numberOf(address), port, share, isTranslated: true });
      return;
    }
    case 'one-of': {
      const share = path.share / action.verdicts.length;
      for (const verdict of action.verdicts) take(verdict, { ...path, share }, walking, sinks);
      return;
    }
    case 'look-up':
      lookUp(action, path, walking, sinks);
      return;
    case 'masquerade':
      ended.push({ ...path, isMasqueraded: true });
      return;
    case 'mark':
      next.push({ ...path, mark: ((path.mark & ~action.mask) ^ action.value) >>> 0 });
      return;
    case 'remember':
      next.push({ ...path, remembered: { list: action.list } });
      return;
    case 'unread':
      next.push(path);
  }
}

/** A key with the client's address has a verdict for each of them. */
function lookUp(
  { key, map }: Extract<Action, { readonly kind: 'look-up' }>,
  path: Path,
  walking: Walking,
  sinks: Sinks,
): void {
  const { classes, program, protocol } = walking.asked;
  const elements = program.sets.get(map);
  const on = (one: Path, source: string): void => {
    const verdict = elements?.exact.get(keyOf(key, path, protocol, source));
    if (verdict === undefined) sinks.next.push(one);
    else take(verdict, one, walking, sinks);
  };
  if (!key.includes('source')) {
    on(path, '');
    return;
  }
  for (const [index, { source }] of classes.entries()) {
    const clients = path.clients & bitOf(index);
    if (clients !== 0n) on({ ...path, clients }, source);
  }
}
