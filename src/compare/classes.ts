// SPDX-License-Identifier: Apache-2.0
// Clients and destinations in classes: whatever lies between two values that either side names is the same for both.
import { isLoopback } from '../lib/ip.ts';
import type { Family, Protocol } from '../model/types.ts';
import {
  type AddressNumber,
  after,
  contains,
  isOneAddress,
  numberOf,
  type Range,
  rangeOf,
  textOf,
} from './rules/ranges.ts';
import type { NodeAddresses, Side } from './sides/side.ts';
import type { ClientClass, Destination } from './walk/path.ts';

/** Packets come from these only; RFC 1122 section 3.2.1.3, RFC 4291 section 2. */
const CLIENTS: Readonly<Record<Family, Range>> = {
  IPv4: { from: numberOf('1.0.0.0'), to: numberOf('224.0.0.0') },
  IPv6: { from: numberOf('100::'), to: numberOf('ff00::') },
};
const LOOPBACK: Readonly<Record<Family, string>> = { IPv4: '127.0.0.1', IPv6: '::1' };
const LOOPBACKS: Readonly<Record<Family, string>> = { IPv4: '127.0.0.0/8', IPv6: '::1/128' };
/** No rule names it. */
const OTHER_DEVICE = 'another device';

export interface Compared {
  readonly family: Family;
  readonly sides: readonly [Side, Side];
  readonly node: NodeAddresses;
}

export function clientClasses(
  { family, sides, node }: Compared,
  destination: Destination,
): readonly ClientClass[] {
  const reached = sides.map((side) => side.reach(destination));
  const own = new Set(node.own);
  const named = [...own, destination.address].flatMap((text) => rangeOf(text) ?? []);
  const loopback = rangeOf(LOOPBACKS[family]);
  const all = CLIENTS[family];
  const cuts = cutsOf([
    ...reached.flatMap(({ sources }) => sources),
    ...named,
    loopback ?? all,
    all,
  ]);
  const devices = new Set(reached.flatMap((one) => [...one.devices]));
  const found: ClientClass[] = [];
  for (const [index, from] of cuts.entries()) {
    const to = cuts[index + 1];
    if (to === undefined) break;
    const source = textOf(from);
    if (isLoopback(source)) {
      if (
        (isLoopback(destination.address) && source === LOOPBACK[family]) ||
        contains({ from, to }, numberOf(LOOPBACK[family]))
      )
        found.push(...processOn(LOOPBACK[family], { from, to }, destination));
      continue;
    }
    if (from < all.from || from >= all.to) continue;
    const sources = { from, to };
    if (own.has(source)) found.push({ sources, source, at: from, device: undefined, isOwn: true });
    else if (source !== destination.address)
      for (const device of [OTHER_DEVICE, ...[...devices].map((name) => name.replace('*', '0'))])
        found.push({ sources, source, at: from, device, isOwn: false });
  }
  return found;
}

/** From a loopback address only loopback addresses are reached. */
const processOn = (
  source: string,
  sources: Range,
  { address }: Destination,
): readonly ClientClass[] =>
  isLoopback(address)
    ? [{ sources, source, at: numberOf(source), device: undefined, isOwn: true }]
    : [];

/** Ascending, each once. */
function cutsOf(ranges: readonly Range[]): readonly AddressNumber[] {
  const numbers = new Set<AddressNumber>();
  for (const { from, to } of ranges) numbers.add(from).add(to);
  return [...numbers].sort((a, b) => (a < b ? -1 : 1));
}

/** Every address that a side names, those of the node, and one of each range that has no other. */
export function* destinations(compared: Compared): Iterable<Destination> {
  for (const address of addressesOf(compared)) {
    const ports = new Set(compared.sides.flatMap((side) => [...side.reach({ address }).ports]));
    for (const text of ports) {
      const [protocol = '', port = ''] = text.split(' ');
      if (isProtocol(protocol)) yield { address, protocol, port: Number(port) };
    }
    for (const protocol of ['TCP', 'UDP'] satisfies Protocol[])
      yield { address, protocol, port: unusedPort(ports) };
  }
}

const isProtocol = (text: string): text is Protocol =>
  text === 'TCP' || text === 'UDP' || text === 'SCTP';

/** No side has it in any protocol. */
function unusedPort(ports: ReadonlySet<string>): number {
  let port = 9;
  while (['TCP', 'UDP', 'SCTP'].some((protocol) => ports.has(`${protocol} ${port}`))) port += 1;
  return port;
}

function addressesOf({ family, sides, node }: Compared): Iterable<string> {
  const found = new Set<string>([...node.own, LOOPBACK[family]]);
  for (const side of sides) for (const address of side.addresses()) found.add(address);
  const taken = new Set([...found].map(numberOf));
  for (const range of [...sides.flatMap((side) => [...side.ranges()]), CLIENTS[family]]) {
    const free = freeIn(range, taken);
    if (free !== undefined) found.add(textOf(free));
  }
  return found;
}

const MOST_TRIED = 100_000;

function freeIn(range: Range, taken: ReadonlySet<AddressNumber>): AddressNumber | undefined {
  if (isOneAddress(range)) return undefined;
  let number = range.from;
  for (let tried = 0; tried < MOST_TRIED && number < range.to; tried += 1) {
    if (!taken.has(number) && !isLoopback(textOf(number))) return number;
    number = after(number, 1);
  }
  return undefined;
}
