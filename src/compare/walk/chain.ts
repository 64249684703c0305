// SPDX-License-Identifier: Apache-2.0
// Paths through one chain of rules, and those that it leads to.
import { numberOf } from '../rules/ranges.ts';
import type { Action, Rule } from '../rules/types.ts';
import { candidates } from './candidates.ts';
import { keyOf, type Matching, matching } from './match.ts';
import type { Path } from './path.ts';

/** `next`: the rule after this one; `return`: the rule after the one that jumped here; `end`: no further rule of the hook. */
type Onward = 'next' | 'return' | 'end';

interface Step {
  readonly path: Path;
  readonly onward: Onward;
}

/** Kernels allow 16. */
const MOST_JUMPS = 32;

/** @returns where each path is when the chain has ended, or has said what becomes of it */
export function throughChain(chain: string, start: Path, asked: Matching): readonly Path[] {
  return walk(chain, start, asked, 0).map(({ path }) => path);
}

function walk(chain: string, start: Path, asked: Matching, depth: number): readonly Step[] {
  const rules = asked.program.chains.get(chain) ?? [];
  if (depth > MOST_JUMPS) return [{ path: start, onward: 'return' }];
  const done: Step[] = [];
  let open: readonly Path[] = [start];
  for (const rule of candidates(rules, start.at, start.port)) {
    const next: Path[] = [];
    for (const path of open) {
      for (const step of through(rule, path, asked, depth)) {
        if (step.onward === 'next') next.push(step.path);
        else done.push(step);
      }
    }
    open = next;
    if (open.length === 0) break;
  }
  return [...done, ...open.map((path): Step => ({ path, onward: 'return' }))];
}

/** Clients that the rule does not match go on; of those that it matches in a share of cases, the rest does. */
function through(rule: Rule, path: Path, asked: Matching, depth: number): readonly Step[] {
  // What becomes of a packet that is translated already is the same for every proxy.
  if (rule.isForeign && path.isTranslated) return [{ path, onward: 'next' }];
  let clients = path.clients;
  let share = 1;
  for (const test of rule.tests) {
    clients = matching(test, path, clients, asked);
    if (test.kind === 'share') share *= test.share;
    if (clients === 0n) return [{ path, onward: 'next' }];
  }
  const steps: Step[] = [];
  const others = path.clients & ~clients;
  if (others !== 0n) steps.push({ path: { ...path, clients: others }, onward: 'next' });
  if (share < 1) {
    const missed = { ...path, clients, share: path.share * (1 - share) };
    steps.push({ path: missed, onward: 'next' });
  }
  const matched: Path = {
    ...path,
    clients,
    share: path.share * share,
    trail: { rule, before: path.trail },
  };
  return [...steps, ...act(rule.actions, matched, asked, depth)];
}

function act(
  actions: readonly Action[],
  start: Path,
  asked: Matching,
  depth: number,
): readonly Step[] {
  const done: Step[] = [];
  let open: readonly Path[] = [start];
  for (const action of actions) {
    const steps = open.flatMap((path) => take(action, path, asked, depth));
    done.push(...steps.filter(({ onward }) => onward !== 'next'));
    open = steps.filter(({ onward }) => onward === 'next').map(({ path }) => path);
  }
  return [...done, ...open.map((path): Step => ({ path, onward: 'next' }))];
}

function take(action: Action, path: Path, asked: Matching, depth: number): readonly Step[] {
  const on = (changed: Partial<Path>, onward: Onward = 'next'): readonly Step[] => [
    { path: { ...path, ...changed }, onward },
  ];
  switch (action.kind) {
    case 'jump':
    case 'goto': {
      const after = action.kind === 'jump' ? 'next' : 'return';
      return walk(action.chain, path, asked, depth + 1).map((step) =>
        step.onward === 'return' ? { ...step, onward: after } : step,
      );
    }
    case 'return':
      return on({}, 'return');
    case 'accept':
      return on({}, 'end');
    case 'drop':
    case 'reject':
      return on({ end: action.kind }, 'end');
    case 'dnat':
      return action.to.flatMap(({ address, port = path.port }) => {
        const share = path.share / action.to.length;
        return on({ address, at: numberOf(address), port, share, isTranslated: true }, 'end');
      });
    case 'one-of':
      return action.verdicts.flatMap((verdict) =>
        take(verdict, { ...path, share: path.share / action.verdicts.length }, asked, depth),
      );
    case 'look-up':
      return lookUp(action, path, asked, depth);
    case 'masquerade':
      return on({ isMasqueraded: true }, 'end');
    case 'mark':
      return on({ mark: ((path.mark & ~action.mask) ^ action.value) >>> 0 });
    case 'remember':
      return on({ remembered: { list: action.list } });
    case 'unread':
      return on({});
  }
}

/** A key with the client's address has a verdict for each of them. */
function lookUp(
  { key, map }: Extract<Action, { readonly kind: 'look-up' }>,
  path: Path,
  asked: Matching,
  depth: number,
): readonly Step[] {
  const elements = asked.program.sets.get(map);
  if (!key.includes('source')) {
    const verdict = elements?.exact.get(keyOf(key, path, asked.protocol, ''));
    return verdict === undefined ? [{ path, onward: 'next' }] : take(verdict, path, asked, depth);
  }
  return asked.classes.flatMap(({ source }, index) => {
    const clients = path.clients & (1n << BigInt(index));
    if (clients === 0n) return [];
    const one = { ...path, clients };
    const verdict = elements?.exact.get(keyOf(key, path, asked.protocol, source));
    return verdict === undefined
      ? [{ path: one, onward: 'next' } as const]
      : take(verdict, one, asked, depth);
  });
}
