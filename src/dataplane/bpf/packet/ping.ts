// SPDX-License-Identifier: Apache-2.0
// fl_ping: the addresses whose echo requests the packet programs answer: those of Services, except addresses of the
// node, which answers for them itself.
import type { Logger } from '../../../log.ts';
import type { Plan } from '../../../plan/types.ts';
import type { BpfMap } from '../../../sys/native.ts';
import { codeOf } from '../loader/errors.ts';
import { encodeU32 } from '../maps/layout.ts';
import { decodePingKey, encodePingKey } from '../maps/packet-layout.ts';

type PingMap = Pick<BpfMap, 'readAll' | 'put' | 'delete' | 'info'>;

const VALUE = encodeU32(1);

/** Returns a function that writes what differs from the last plan; the first time, from the kernel. */
export function followPing(
  map: PingMap,
  log: Pick<Logger, 'warn'>,
): (plan: Pick<Plan, 'services' | 'node'>) => void {
  let held: ReadonlySet<string> | undefined;
  const put = (address: string): boolean => {
    try {
      map.put(encodePingKey(address), VALUE);
      return true;
    } catch (error) {
      log.warn({ address, map: map.info.name, code: codeOf(error) }, 'pings are not answered');
      return false;
    }
  };
  return (plan) => {
    const wanted = addressesOf(plan);
    const known = held ?? addressesIn(map);
    for (const address of known) if (!wanted.has(address)) map.delete(encodePingKey(address));
    held = new Set([...wanted].filter((address) => known.has(address) || put(address)));
  };
}

function addressesOf({ services, node }: Pick<Plan, 'services' | 'node'>): Set<string> {
  const addresses = new Set<string>();
  for (const { ports } of services.values()) {
    for (const { frontends } of ports) {
      for (const { address } of frontends) if (address !== undefined) addresses.add(address);
    }
  }
  for (const address of node.localAddresses) addresses.delete(address);
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
