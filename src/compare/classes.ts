// SPDX-License-Identifier: Apache-2.0
// Clients and destinations in classes: whatever lies between two values that either side names is the same for both.
import { isLoopback } from '../lib/ip.ts';
import type { Family, Protocol } from '../model/types.ts';
import {
  type AddressNumber,
  after,
  contains,
  numberOf,
  type Range,
  rangeOf,
  textOf,
} from './rules/ranges.ts';
import type { PortRange } from './rules/types.ts';
import type { NodeAddresses, Side } from './sides/side.ts';
import type { ClientClass, Destination } from './walk/path.ts';
import type { Reached } from './walk/reach.ts';

/** Packets come from these only; RFC 1122 section 3.2.1.3, RFC 4291 section 2. */
const CLIENTS: Readonly<Record<Family, Range>> = {
  IPv4: { from: numberOf('1.0.0.0'), to: numberOf('224.0.0.0') },
  IPv6: { from: numberOf('100::'), to: numberOf('ff00::') },
};
const LOOPBACK: Readonly<Record<Family, string>> = { IPv4: '127.0.0.1', IPv6: '::1' };
const LOOPBACKS: Readonly<Record<Family, string>> = { IPv4: '127.0.0.0/8', IPv6: '::1/128' };
/** No rule names it: no name of a device has a blank. */
const OTHER_DEVICE = ' another device';
/** Only the node itself sends by it. */
const OWN_DEVICE = 'lo';
const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];

export interface Compared {
  readonly family: Family;
  readonly sides: readonly [Side, Side];
  readonly node: NodeAddresses;
  /** absent: all destinations. */
  readonly isAsked?: (destination: Destination) => boolean;
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
  const devices = devicesOf(reached);
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
      for (const device of devices) found.push({ sources, source, at: from, device, isOwn: false });
  }
  return found;
}

/** One of each name or prefix of names, which no longer prefix has, and another one. */
function devicesOf(reached: readonly Reached[]): readonly string[] {
  const names = new Set(reached.flatMap((one) => [...one.devices]));
  names.delete(OWN_DEVICE);
  return [OTHER_DEVICE, ...[...names].map((name) => name.replace(/\*$/, OTHER_DEVICE))];
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
    const reached = compared.sides.map((side) => side.reach({ address }));
    const ports = new Set(reached.flatMap((one) => [...one.ports]));
    for (const text of ports) {
      const [protocol = '', port = ''] = text.split(' ');
      if (isProtocol(protocol)) yield { address, protocol, port: Number(port) };
    }
    const cuts = portCuts(reached.flatMap(({ portRanges }) => portRanges));
    for (const protocol of PROTOCOLS)
      for (const port of otherPorts(protocol, ports, cuts)) yield { address, protocol, port };
  }
}

const isProtocol = (text: string): text is Protocol =>
  text === 'TCP' || text === 'UDP' || text === 'SCTP';

const END_OF_PORTS = 65_536;

/** Ascending: between two of them no range begins or ends. */
function portCuts(ranges: readonly PortRange[]): readonly number[] {
  const cuts = new Set([1, END_OF_PORTS]);
  for (const { from, to } of ranges) cuts.add(from).add(to + 1);
  return [...cuts].filter((cut) => cut >= 1 && cut <= END_OF_PORTS).sort((a, b) => a - b);
}

/** Between each two cuts, one port that no side names. */
function* otherPorts(
  protocol: Protocol,
  named: ReadonlySet<string>,
  cuts: readonly number[],
): Iterable<number> {
  for (const [index, from] of cuts.entries()) {
    const to = cuts[index + 1] ?? from;
    let port = from;
    while (port < to && named.has(`${protocol} ${port}`)) port += 1;
    if (port < to) yield port;
  }
}

function addressesOf({ family, sides, node }: Compared): Iterable<string> {
  const found = new Set<string>([...node.own, LOOPBACK[family]]);
  for (const side of sides) for (const address of side.addresses()) found.add(address);
  const loopbacks = rangeOf(LOOPBACKS[family]) ?? CLIENTS[family];
  const taken = new Set([...found].map(numberOf)).add(loopbacks.from);
  const cuts = cutsOf([...sides.flatMap((side) => [...side.ranges()]), loopbacks, CLIENTS[family]]);
  for (const [index, from] of cuts.entries()) {
    const free = freeIn({ from, to: cuts[index + 1] ?? from }, taken);
    if (free !== undefined) found.add(textOf(free));
  }
  return found;
}

function freeIn({ from, to }: Range, taken: ReadonlySet<AddressNumber>): AddressNumber | undefined {
  let number = from;
  while (number < to && taken.has(number)) number = after(number, 1);
  return number < to ? number : undefined;
}
