// SPDX-License-Identifier: Apache-2.0
// fl_ping: the addresses whose echo requests the packet programs answer: those of Services, except addresses of the
// node, which answers for them itself.
import type { Logger } from '../../../log.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../../plan/types.ts';
import type { BpfMap } from '../../../sys/native.ts';
import { codeOf } from '../loader/errors.ts';
import { encodeU32 } from '../maps/layout.ts';
import { decodePingKey, encodePingKey } from '../maps/packet-layout.ts';

type PingMap = Pick<BpfMap, 'readAll' | 'put' | 'delete' | 'info'>;

const VALUE = encodeU32(1);

type Followed = Pick<Plan, 'services' | 'node'>;

/**
 * Returns a function that writes what differs from the last plan; the first time, from the kernel. It is told which
 * Services have changed: the others, ten thousand perhaps, are not looked at.
 */
export function followPing(
  map: PingMap,
  log: Pick<Logger, 'warn'>,
): (plan: Followed, changed: Iterable<ServiceKey> | 'all') => void {
  const held = new Set<string>();
  /** Those that may be in the map without a use, or not be in it with one; also what an attempt has left as it was. */
  const pending = new Set<string>();
  const uses = createUses();
  let node: Plan['node'] | undefined;
  const put = (address: string): void => {
    try {
      map.put(encodePingKey(address), VALUE);
      held.add(address);
      pending.delete(address);
    } catch (error) {
      log.warn({ address, map: map.info.name, code: codeOf(error) }, 'pings are not answered');
    }
  };
  const remove = (address: string): void => {
    if (held.has(address)) map.delete(encodePingKey(address));
    held.delete(address);
    pending.delete(address);
  };
  const take = ({ services }: Followed, changed: Iterable<ServiceKey> | 'all'): void => {
    const keys = changed === 'all' ? [...uses.services(), ...services.keys()] : changed;
    for (const key of keys) {
      for (const address of uses.set(key, services.get(key))) pending.add(address);
    }
    for (const address of changed === 'all' ? [...held, ...uses.addresses()] : [])
      pending.add(address);
  };
  return (plan, changed) => {
    if (node === undefined) for (const address of addressesIn(map)) held.add(address);
    take(plan, node === plan.node ? changed : 'all');
    node = plan.node;
    const local = new Set(node.localAddresses);
    const isWanted = (address: string): boolean => uses.has(address) && !local.has(address);
    for (const address of pending) if (!isWanted(address)) remove(address);
    for (const address of pending) {
      if (held.has(address)) pending.delete(address);
      else put(address);
    }
  };
}

interface Uses {
  services(): Iterable<ServiceKey>;
  addresses(): Iterable<string>;
  has(address: string): boolean;
  /** @returns the addresses that the Service had, and has; none if it is the same (===) as before */
  set(key: ServiceKey, service: ServicePlan | undefined): readonly string[];
}

/** How many Services have each address. */
function createUses(): Uses {
  const counts = new Map<string, number>();
  const known = new Map<ServiceKey, ServicePlan>();
  const count = (address: string, by: number): void => {
    const uses = (counts.get(address) ?? 0) + by;
    if (uses === 0) counts.delete(address);
    else counts.set(address, uses);
  };
  return {
    services: () => known.keys(),
    addresses: () => counts.keys(),
    has: (address) => counts.has(address),
    set(key, service) {
      const former = known.get(key);
      if (former === service) return [];
      const [before, after] = [addressesOf(former), addressesOf(service)];
      for (const address of after) count(address, 1);
      for (const address of before) count(address, -1);
      if (service === undefined) known.delete(key);
      else known.set(key, service);
      return [...before, ...after];
    },
  };
}

/** One that several frontends have is there as often. */
function addressesOf(service: ServicePlan | undefined): readonly string[] {
  const addresses: string[] = [];
  for (const { frontends } of service?.ports ?? []) {
    for (const { address } of frontends) if (address !== undefined) addresses.push(address);
  }
  return addresses;
}

function addressesIn(map: PingMap): Set<string> {
  const { keys, count } = map.readAll();
  const { keySize } = map.info;
  return new Set(
    Array.from({ length: count }, (_, index) =>
      decodePingKey(keys.subarray(index * keySize, (index + 1) * keySize)),
    ),
  );
}
