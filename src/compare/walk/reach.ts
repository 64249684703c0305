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
  PortRange,
  Program,
  Rule,
  Test,
} from '../rules/types.ts';
import { candidates } from './candidates.ts';
import { isPortIn } from './match.ts';
import type { World } from './path.ts';

export interface Reached {
  /** `TCP 80`; a rule that tests no protocol has all of them. */
  readonly ports: ReadonlySet<string>;
  /** Of any protocol. */
  readonly portRanges: readonly PortRange[];
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
  readonly portRanges: Set<PortRange>;
  readonly sources: Map<string, Range>;
  readonly devices: Set<string>;
  readonly backends: Map<string, Backend>;
  /** Chains that were looked at. */
  seen: Set<string>;
}

const BEFORE: readonly Hook[] = ['prerouting', 'input', 'forward', 'output', 'postrouting'];
/** Chains of type nat in the first two are not asked again. */
const AFTER: readonly Hook[] = ['prerouting', 'output', 'input', 'forward', 'postrouting'];
const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];

export function reach(
  program: Program,
  world: World,
  { address, ...more }: Pick<Asked, 'address' | 'protocol' | 'port'>,
): Reached {
  const search: Search = {
    ...{ program, world, ports: new Set(), portRanges: new Set(), sources: new Map() },
    ...{ devices: new Set(), backends: new Map(), seen: new Set() },
  };
  visitHooks(BEFORE, { address, at: numberOf(address), ...more }, search, true);
  for (const backend of search.backends.values()) {
    search.seen = new Set();
    // Ports of backends are no ports of the destination, and without its port only these are asked for.
    if (more.port === undefined && backend.port !== undefined) continue;
    const { address: next, port = more.port } = backend;
    const own = rangeOf(next);
    if (own !== undefined) search.sources.set(next, own);
    const to = { address: next, at: numberOf(next), protocol: more.protocol, port };
    const ports = backend.port === undefined ? search.ports : new Set<string>();
    const portRanges = backend.port === undefined ? search.portRanges : new Set<PortRange>();
    visitHooks(AFTER, to, { ...search, ports, portRanges, backends: new Map() }, false);
  }
  const { ports, portRanges, sources, devices } = search;
  return { ports, portRanges: [...portRanges], sources: [...sources.values()], devices };
}

function visitHooks(hooks: readonly Hook[], asked: Asked, search: Search, isNew: boolean): void {
  for (const hook of hooks)
    for (const { chain, isNat } of search.program.hooks[hook])
      if (isNew || !isNat || hook === 'postrouting') visit(chain, asked, search);
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
      return port === undefined || isPortIn(test.ranges, port) !== test.not;
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
  const protocols = protocolsOf(tests);
  for (const test of tests) {
    if (test.kind === 'address' && test.side === 'source')
      for (const range of test.ranges) search.sources.set(`${range.from} ${range.to}`, range);
    else if (test.kind === 'device') search.devices.add(test.name);
    else if (test.kind === 'port') notePorts(test.ranges, protocols, search);
    else if (test.kind === 'member') noteKey(test.key, test.set, asked, search);
  }
}

/** Those that no test of the rule excludes. */
function protocolsOf(tests: readonly Test[]): readonly Protocol[] {
  let left = PROTOCOLS;
  for (const test of tests)
    if (test.kind === 'protocol')
      left = left.filter((protocol) => test.protocols.includes(protocol) !== test.not);
  return left;
}

function notePorts(
  ranges: readonly PortRange[],
  protocols: readonly Protocol[],
  search: Search,
): void {
  for (const range of ranges) {
    if (range.from !== range.to) search.portRanges.add(range);
    else for (const protocol of protocols) search.ports.add(`${protocol} ${range.from}`);
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
    if (key.includes('port'))
      for (const protocol of key.includes('protocol') ? [at('protocol')] : PROTOCOLS)
        search.ports.add(`${protocol} ${at('port')}`);
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

type ByDestination = ReadonlyMap<string, readonly Element[]>;
/** For each key by which rules ask: by destination, or by '' if it has none. */
const INDEXES = new WeakMap<Elements, Map<string, ByDestination>>();

function indexFor(set: Elements, key: readonly KeyPart[]): ByDestination {
  const indexes = INDEXES.get(set) ?? new Map<string, ByDestination>();
  INDEXES.set(set, indexes);
  const name = key.join(' ');
  const index = indexes.get(name) ?? indexed(set, key);
  indexes.set(name, index);
  return index;
}

function elementsFor(set: Elements, key: readonly KeyPart[], asked: Asked): readonly Element[] {
  const { address, protocol, port } = asked;
  const isKnown = (part: KeyPart): boolean =>
    (part === 'protocol' ? protocol : part === 'port' ? port : address) !== undefined;
  if (!key.includes('source') && key.every(isKnown)) return exactly(set, key, asked);
  const some = indexFor(set, key).get(key.includes('destination') ? address : '') ?? [];
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
