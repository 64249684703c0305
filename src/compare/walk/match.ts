// SPDX-License-Identifier: Apache-2.0
// Which clients a test holds for.
import type { Protocol } from '../../model/types.ts';
import { contains } from '../rules/ranges.ts';
import type { Elements, KeyPart, PortRange, Program, Test } from '../rules/types.ts';
import { bitOf, type ClientClass, type Destination, type Path, type World } from './path.ts';

export interface Matching {
  readonly program: Program;
  readonly world: World;
  readonly classes: readonly ClientClass[];
  readonly protocol: Protocol;
  /** Where the packet went first. */
  readonly destination: Pick<Destination, 'address' | 'port'>;
}

/** Of these clients, those for which the test holds. A share of cases is no matter of clients: all of them. */
export function matching(test: Test, path: Path, clients: bigint, asked: Matching): bigint {
  const only = (holds: boolean): bigint => (holds ? clients : 0n);
  switch (test.kind) {
    case 'address':
      if (test.side === 'source')
        return those(asked, clients, ({ at }) => isIn(test.ranges, at) !== test.not);
      return only(isIn(test.ranges, path.at) !== test.not);
    case 'local':
      if (test.side === 'source') return those(asked, clients, ({ isOwn }) => isOwn !== test.not);
      return only(asked.world.isLocal(path.address) !== test.not);
    case 'device':
      return those(asked, clients, ({ device = '' }) => isNamed(test.name, device) !== test.not);
    case 'protocol':
      return only(test.protocols.includes(asked.protocol) !== test.not);
    case 'port':
      return only(isPortIn(test.ranges, path.port) !== test.not);
    case 'state':
      return only(
        (test.any.includes('NEW') || (path.isTranslated && test.any.includes('DNAT'))) !== test.not,
      );
    case 'mark':
      return only(((path.mark & test.mask) >>> 0 === test.value >>> 0) !== test.not);
    case 'share':
      return clients;
    case 'remembered':
      return only(asked.world.remembered === test.list);
    case 'member':
      return member(test, path, clients, asked);
    case 'virtual': {
      const { address, port } = asked.destination;
      return only(
        path.isTranslated &&
          address === test.address &&
          port === test.port &&
          asked.protocol === test.protocol,
      );
    }
    case 'unread':
      return 0n;
  }
}

const isIn = (ranges: readonly Parameters<typeof contains>[0][], at: ClientClass['at']): boolean =>
  ranges.some((range) => contains(range, at));

export const isPortIn = (ranges: readonly PortRange[], port: number): boolean =>
  ranges.some(({ from, to }) => from <= port && port <= to);

/** What a process sends comes by no device. */
const isNamed = (wanted: string, device: string): boolean =>
  wanted.endsWith('*') ? device.startsWith(wanted.slice(0, -1)) : device === wanted;

export function those(
  { classes }: Pick<Matching, 'classes'>,
  clients: bigint,
  holds: (one: ClientClass) => boolean,
): bigint {
  let found = 0n;
  for (let index = 0; index < classes.length; index += 1) {
    const [bit, one] = [bitOf(index), classes[index]];
    if (one !== undefined && (clients & bit) !== 0n && holds(one)) found |= bit;
  }
  return found;
}

function member(
  test: Extract<Test, { readonly kind: 'member' }>,
  path: Path,
  clients: bigint,
  asked: Matching,
): bigint {
  const set = asked.program.sets.get(test.set);
  if (set === undefined) return 0n;
  if (!test.key.includes('source')) {
    const isMember = has(set, keyOf(test.key, path, asked.protocol, ''), path.at);
    return isMember !== test.not ? clients : 0n;
  }
  const own = keyOf(test.key.slice(0, -1), path, asked.protocol, '');
  const nets = (test.key.at(-1) === 'source' && set.nets?.get(own)) || [];
  return those(asked, clients, ({ source, at }) => {
    const key = keyOf(test.key, path, asked.protocol, source);
    return (has(set, key, at) || isIn(nets, at)) !== test.not;
  });
}

const has = ({ exact, ranges }: Elements, key: string, at: ClientClass['at']): boolean =>
  exact.has(key) || isIn(ranges, at);

export function keyOf(
  key: readonly KeyPart[],
  { address, port }: Pick<Path, 'address' | 'port'>,
  protocol: Protocol,
  source: string,
): string {
  const parts = { source, destination: address, protocol, port };
  return key.map((part) => parts[part]).join(' ');
}
