// SPDX-License-Identifier: Apache-2.0
// fl_ping: the addresses whose echo requests the packet programs answer: those of Services, except addresses of the
// node, which answers for them itself.
import type { Logger } from '../../../log.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../../plan/types.ts';
import { TrackedTable } from '../../tracked-table.ts';
import { decodeU32, encodeU32 } from '../layout/layout.ts';
import { decodePingKey, encodePingKey } from '../layout/packet-layout.ts';
import { type RowCodec, type RowTable, rowsOf, warnOfRows } from '../layout/rows.ts';

const ANSWERED = 1;

const ADDRESSES: RowCodec<string, number> = {
  encodeKey: encodePingKey,
  decodeKey: decodePingKey,
  encodeValue: encodeU32,
  decodeValue: decodeU32,
};

type Followed = Pick<Plan, 'services' | 'node'>;

/**
 * Returns a function that writes what differs from the last plan; the first time, from the kernel. It is told which
 * Services have changed: the others, ten thousand perhaps, are not looked at.
 */
export function followPing(
  table: RowTable,
  log: Pick<Logger, 'warn'>,
): (plan: Followed, changed: Iterable<ServiceKey> | 'all') => void {
  const rows = new TrackedTable(rowsOf(table, ADDRESSES));
  const uses = createUses();
  let local: ReadonlySet<string> = new Set();
  let node: Plan['node'] | undefined;
  const follow = (address: string): void => {
    if (uses.has(address) && !local.has(address)) rows.set(address, ANSWERED);
    else rows.delete(address);
  };
  return (plan, changed) => {
    const { services } = plan;
    if (node !== plan.node) {
      const former = local;
      node = plan.node;
      local = new Set(node.localAddresses);
      for (const address of [...former, ...local]) follow(address);
    }
    const keys = changed === 'all' ? [...uses.services(), ...services.keys()] : changed;
    for (const key of keys) for (const address of uses.set(key, services.get(key))) follow(address);
    if (!rows.isDone) warnOfRows(log, table, rows.write(), consequence);
  };
}

const consequence = ({ desired }: { readonly desired: number | undefined }): string =>
  desired === undefined ? 'pings are still answered' : 'pings are not answered';

interface Uses {
  services(): Iterable<ServiceKey>;
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
