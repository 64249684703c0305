// SPDX-License-Identifier: Apache-2.0
// A packet through the chains of one table at one hook: every way that it may take.
import type { Rule, Table, Target } from '../../../src/engines/iptables/rules/types.ts';
import { matchProbability } from './match.ts';
import type { Hook, Path, World } from './packet.ts';

/** `next`: the rule after this one; `return`: the rule after the jump to this chain. */
type End = 'next' | 'return' | 'accept' | 'drop' | 'reject';

interface Step {
  readonly path: Path;
  readonly end: End;
}

interface Location {
  readonly table: Table;
  readonly hook: Hook;
  readonly world: World;
  /** The chains that have led here, the last one first. */
  readonly chains: readonly string[];
}

const END_OF: ReadonlyMap<string, End> = new Map([
  ...([
    ['ACCEPT', 'accept'],
    ['DROP', 'drop'],
    ['RETURN', 'return'],
  ] as const),
]);

export function throughTable(table: Table, hook: Hook, world: World, path: Path): readonly Path[] {
  const rules = table.jumps.filter(({ from }) => from === hook).map(({ rule }) => rule);
  const isDropped = table.name === 'filter' && world.droppedByPolicy?.includes(hook);
  const verdicts = { next: 'accept', return: isDropped ? 'drop' : 'accept' } as const;
  const steps = walk(rules, path, { table, hook, world, chains: [hook] });
  return steps.map(({ path: taken, end }) => ({
    ...taken,
    verdict: end === 'next' || end === 'return' ? verdicts[end] : end,
  }));
}

/** @returns ways through the rules; `return` also for what comes to their end */
function walk(rules: readonly Rule[], path: Path, location: Location): readonly Step[] {
  const done: Step[] = [];
  let open: readonly Path[] = [path];
  for (const rule of rules) {
    const next: Path[] = [];
    for (const one of open) {
      const share = matchProbability(rule, one.packet, location.world);
      if (share < 1) next.push(share === 0 ? one : withShare(one, 1 - share));
      if (share === 0) continue;
      const matched = matchedBy(rule, withShare(one, share), location);
      for (const step of take(rule.target, matched, location)) {
        if (step.end === 'next') next.push(step.path);
        else done.push(step);
      }
    }
    open = next;
    if (open.length === 0) break;
  }
  return [...done, ...open.map((one): Step => ({ path: one, end: 'return' }))];
}

const withShare = (path: Path, share: number): Path => ({
  ...path,
  probability: path.probability * share,
});

function matchedBy(rule: Rule, path: Path, { table, hook, chains }: Location): Path {
  const isRemembered = rule.recent?.action.kind === 'set';
  return {
    ...path,
    remembered: isRemembered ? [...path.remembered, rule.recent.list] : path.remembered,
    matched: [...path.matched, { table: table.name, hook, chain: chains[0] ?? hook, rule }],
  };
}

function take(target: Target | undefined, path: Path, location: Location): readonly Step[] {
  switch (target?.kind) {
    case undefined:
      return [{ path, end: 'next' }];
    case 'jump':
      return jump(target.chain, path, location);
    case 'reject':
      allow(location, 'filter', ['INPUT', 'FORWARD', 'OUTPUT']);
      return [{ path, end: 'reject' }];
    case 'set-mark': {
      const mark = ((path.packet.mark & ~target.mask) ^ target.value) >>> 0;
      return [{ path: { ...path, packet: { ...path.packet, mark } }, end: 'next' }];
    }
    case 'dnat':
      allow(location, 'nat', ['PREROUTING', 'OUTPUT']);
      return [{ path: { ...path, packet: translated(path, target.to) }, end: 'accept' }];
    case 'masquerade': {
      allow(location, 'nat', ['POSTROUTING']);
      const packet = { ...path.packet, source: location.world.snatAddress };
      return [{ path: { ...path, packet, isMasqueraded: true }, end: 'accept' }];
    }
  }
}

function jump(chain: string, path: Path, location: Location): readonly Step[] {
  const end = END_OF.get(chain);
  if (end !== undefined) return [{ path, end }];
  const found = location.table.chains.find(({ name }) => name === chain);
  if (found === undefined) throw new Error(`table ${location.table.name} has no chain ${chain}`);
  if (location.chains.includes(chain)) throw new Error(`chain ${chain} comes back to itself`);
  const inside = { ...location, chains: [chain, ...location.chains] };
  return walk(found.rules, path, inside).map((step) =>
    step.end === 'return' ? { ...step, end: 'next' } : step,
  );
}

/** The kernel refuses a chain with such a target if it can be reached from another hook or table. */
function allow({ table, hook, chains }: Location, name: string, hooks: readonly Hook[]): void {
  if (table.name === name && hooks.includes(hook)) return;
  throw new Error(`the kernel takes no such target in ${table.name} at ${hook}: ${chains[0]}`);
}

const DNAT_TO = /^(?:\[([0-9a-f:.]+)\]:(\d+)|([0-9.]+):(\d+)|([0-9a-f:.]+))$/;

function translated({ packet }: Path, to: string): Path['packet'] {
  const [, address6, port6, address4, port4, address] = DNAT_TO.exec(to) ?? [];
  const destination = address6 ?? address4 ?? address;
  if (destination === undefined) throw new Error(`cannot read --to-destination ${to}`);
  const destinationPort = Number(port6 ?? port4 ?? packet.destinationPort);
  const isUnchanged =
    destination === packet.destination && destinationPort === packet.destinationPort;
  return { ...packet, destination, destinationPort, isDnat: true, isUnchanged };
}
