// SPDX-License-Identifier: Apache-2.0
// What the rules that a destination can meet ask for: the ports and the clients that they tell apart. More than that does
// no harm: clients and ports with the same answer are two classes then.
import type { Protocol } from '../../model/types.ts';
import { type AddressNumber, contains, numberOf, type Range, rangeOf } from '../rules/ranges.ts';
import type {
  Action,
  Backend,
  Elements,
  Hook,
  KeyPart,
  Program,
  Rule,
  Test,
} from '../rules/types.ts';
import { candidates } from './candidates.ts';
import type { World } from './path.ts';

export interface Reached {
  /** `TCP 80`; with a protocol that no rule tests, one that any rule tests. */
  readonly ports: ReadonlySet<string>;
  readonly sources: readonly Range[];
  readonly devices: ReadonlySet<string>;
}

interface Asked {
  readonly address: string;
  readonly at: AddressNumber;
  /** undefined: any. */
  readonly protocol: Protocol | undefined;
  readonly port: number | undefined;
}

interface Search {
  readonly program: Program;
  readonly world: World;
  readonly ports: Set<string>;
  readonly sources: Map<string, Range>;
  readonly devices: Set<string>;
  readonly backends: Map<string, Backend>;
  /** Chains that were looked at. */
  seen: Set<string>;
}

const BEFORE: readonly Hook[] = ['prerouting', 'input', 'forward', 'output', 'postrouting'];
const AFTER: readonly Hook[] = ['input', 'forward', 'postrouting'];

export function reach(
  program: Program,
  world: World,
  { address, ...more }: Pick<Asked, 'address' | 'protocol' | 'port'>,
): Reached {
  const search: Search = {
    ...{ program, world, ports: new Set(), sources: new Map(), devices: new Set() },
    ...{ backends: new Map(), seen: new Set() },
  };
  visitHooks(BEFORE, { address, at: numberOf(address), ...more }, search);
  for (const backend of search.backends.values()) {
    search.seen = new Set();
    const { address: next, port = more.port } = backend;
    const own = rangeOf(next);
    if (own !== undefined) search.sources.set(next, own);
    const to = { address: next, at: numberOf(next), protocol: more.protocol, port };
    // Ports of backends are no ports of the destination.
    visitHooks(AFTER, to, { ...search, ports: new Set(), backends: new Map() });
  }
  const { ports, sources, devices } = search;
  return { ports, sources: [...sources.values()], devices };
}

function visitHooks(hooks: readonly Hook[], asked: Asked, search: Search): void {
  for (const hook of hooks)
    for (const { chain } of search.program.hooks[hook]) visit(chain, asked, search);
}

function visit(chain: string, asked: Asked, search: Search): void {
  if (search.seen.has(chain)) return;
  search.seen.add(chain);
  const rules = search.program.chains.get(chain) ?? [];
  for (const rule of candidates(rules, asked.at, asked.port)) {
    if (!rule.tests.every((test) => mayHold(test, asked, search))) continue;
    note(rule, asked, search);
    for (const action of rule.actions) follow(action, asked, search);
  }
}

/** By the destination alone. */
function mayHold(test: Test, { address, at, protocol, port }: Asked, { program, world }: Search) {
  switch (test.kind) {
    case 'address':
      return test.side === 'source' || test.ranges.some((one) => contains(one, at)) !== test.not;
    case 'local':
      return test.side === 'source' || world.isLocal(address) !== test.not;
    case 'protocol':
      return protocol === undefined || test.protocols.includes(protocol) !== test.not;
    case 'port':
      return port === undefined || (test.from <= port && port <= test.to) !== test.not;
    case 'member': {
      const set = program.sets.get(test.set);
      if (test.key.length > 1 || test.key[0] !== 'destination' || set === undefined) return true;
      const isMember = set.exact.has(address) || set.ranges.some((one) => contains(one, at));
      return isMember !== test.not;
    }
    default:
      return true;
  }
}

/** What the rule tells apart. */
function note({ tests }: Rule, asked: Asked, search: Search): void {
  const protocols = tests.flatMap((test) => (test.kind === 'protocol' ? test.protocols : []));
  for (const test of tests) {
    if (test.kind === 'address' && test.side === 'source')
      for (const range of test.ranges) search.sources.set(`${range.from} ${range.to}`, range);
    else if (test.kind === 'device') search.devices.add(test.name);
    else if (test.kind === 'port')
      for (const protocol of protocols.length > 0 ? protocols : ['TCP'])
        for (const port of [test.from, test.to]) search.ports.add(`${protocol} ${port}`);
    else if (test.kind === 'member') noteKey(test.key, test.set, asked, search);
  }
}

function follow(action: Action, asked: Asked, search: Search): void {
  switch (action.kind) {
    case 'jump':
    case 'goto':
      visit(action.chain, asked, search);
      return;
    case 'one-of':
      for (const verdict of action.verdicts) follow(verdict, asked, search);
      return;
    case 'dnat':
      for (const backend of action.to)
        search.backends.set(`${backend.address} ${backend.port}`, backend);
      return;
    case 'look-up':
      for (const verdict of noteKey(action.key, action.map, asked, search))
        if (verdict !== undefined) follow(verdict, asked, search);
      return;
    default:
  }
}

/** Elements whose destination, protocol and port may be the packet's. */
function noteKey(key: readonly KeyPart[], name: string, asked: Asked, search: Search) {
  const set = search.program.sets.get(name);
  if (set === undefined) return [];
  const found = elementsFor(set, key, asked);
  for (const { parts } of found) {
    const at = (part: KeyPart): string => parts[key.indexOf(part)] ?? '';
    if (key.includes('port')) search.ports.add(`${at('protocol') || 'TCP'} ${at('port')}`);
    const source = key.includes('source') ? rangeOf(at('source')) : undefined;
    if (source !== undefined) search.sources.set(at('source'), source);
  }
  if (key.length === 1 && key[0] === 'source')
    for (const range of set.ranges) search.sources.set(`${range.from} ${range.to}`, range);
  return found.map(({ verdict }) => verdict);
}

interface Element {
  readonly parts: readonly string[];
  readonly verdict: Action | undefined;
}

/** By destination, or by '' if the key has none. */
const BY_DESTINATION = new WeakMap<Elements, ReadonlyMap<string, readonly Element[]>>();

function elementsFor(set: Elements, key: readonly KeyPart[], asked: Asked): readonly Element[] {
  const { address, protocol, port } = asked;
  const isKnown = (part: KeyPart): boolean =>
    (part === 'protocol' ? protocol : part === 'port' ? port : address) !== undefined;
  if (!key.includes('source') && key.every(isKnown)) return exactly(set, key, asked);
  const index = BY_DESTINATION.get(set) ?? indexed(set, key);
  BY_DESTINATION.set(set, index);
  const some = index.get(key.includes('destination') ? address : '') ?? [];
  const isMeant = (part: KeyPart, value: string | number | undefined, parts: readonly string[]) =>
    value === undefined || !key.includes(part) || parts[key.indexOf(part)] === `${value}`;
  return some.filter(
    ({ parts }) => isMeant('protocol', protocol, parts) && isMeant('port', port, parts),
  );
}

function exactly(set: Elements, key: readonly KeyPart[], asked: Asked): readonly Element[] {
  const { address, protocol, port } = asked;
  const values = { destination: address, protocol, port, source: '' };
  const parts = key.map((part) => `${values[part]}`);
  const text = parts.join(' ');
  return set.exact.has(text) ? [{ parts, verdict: set.exact.get(text) }] : [];
}

function indexed({ exact }: Elements, key: readonly KeyPart[]) {
  const index = new Map<string, Element[]>();
  const at = key.indexOf('destination');
  for (const [text, verdict] of exact) {
    const parts = text.split(' ');
    const by = at < 0 ? '' : (parts[at] ?? '');
    const list = index.get(by);
    if (list === undefined) index.set(by, [{ parts, verdict }]);
    else list.push({ parts, verdict });
  }
  return index;
}
