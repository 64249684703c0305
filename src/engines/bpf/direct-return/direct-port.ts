// SPDX-License-Identifier: Apache-2.0
// What fl_runtime says of this node for direct return: the UDP port at which it takes requests, and the MTU of the way
// between nodes, which IPIP has a use for, too. The port is open from the first plan on in which somebody wants them,
// or may send them because of what an earlier agent has written to the Node, and knows all other nodes: until then the
// kernel tells those that send that it is closed. It stays open, also for the next agent: requests of flows that exist
// come after the last Service has changed its mind.
import { GENEVE_PORT } from '../../../model/direct-return/annotation.ts';
import { FAMILIES } from '../../../model/types.ts';
import type { Plan } from '../../../plan/types.ts';
import type { Network, NetworkFollower } from '../../../sys/netlink/network.ts';
import type { Entry } from '../../entry.ts';
import { DIRECT_MTU_OFFSET, DIRECT_PORT_OFFSET } from '../layout/layout.ts';
import type { ArrayTable } from '../state/tables.ts';

type Followed = Pick<Plan, 'wantsDirectReturn' | 'node'>;

export interface DirectPort {
  /** As an earlier agent has left it. */
  readonly wasOpen: boolean;
  follow(plan: Followed): void;
  /** Compares with the kernel what was written, and repairs it. */
  audit(): readonly Entry[];
  close(): void;
}

/** @param isAble this kernel has direct return; else the port stays closed, also if an earlier agent has left it open */
export function createDirectPort(
  runtime: ArrayTable,
  network: Pick<NetworkFollower, 'current' | 'listen'>,
  isAble: boolean,
): DirectPort {
  if (!isAble) closeDirectPort(runtime);
  let node: Plan['node'] | undefined;
  const wasOpen = read(runtime, DIRECT_PORT_OFFSET) !== 0;
  let isOpen = wasOpen;
  const writeMtu = (): void => {
    if (node !== undefined) write(runtime, DIRECT_MTU_OFFSET, mtuBetween(network.current(), node));
  };
  const unlisten = network.listen(writeMtu);
  return {
    wasOpen,
    follow: (plan) => {
      // Also the network tells what changes the MTU.
      if (node !== plan.node) {
        node = plan.node;
        writeMtu();
      }
      const isDue = plan.wantsDirectReturn === true || node.isPeer === true;
      isOpen ||= isAble && isDue && node.peers !== undefined;
      if (isOpen) write(runtime, DIRECT_PORT_OFFSET, GENEVE_PORT);
    },
    audit() {
      const mtu =
        node === undefined ? read(runtime, DIRECT_MTU_OFFSET) : mtuBetween(network.current(), node);
      return [
        ...repaired(runtime, {
          offset: DIRECT_PORT_OFFSET,
          wanted: isOpen ? GENEVE_PORT : 0,
          ...PORT,
        }),
        ...repaired(runtime, { offset: DIRECT_MTU_OFFSET, wanted: mtu, ...MTU }),
      ];
    },
    close: unlisten,
  };
}

const PORT = { setting: 'direct_port', text: 'port for direct return differs' } as const;
const MTU = { setting: 'direct_mtu', text: 'MTU between nodes differs' } as const;

/** Writes the setting if it is another one. */
function repaired(
  runtime: ArrayTable,
  {
    offset,
    wanted,
    setting,
    text,
  }: {
    readonly offset: number;
    readonly wanted: number;
    readonly setting: string;
    readonly text: string;
  },
): readonly Entry[] {
  if (read(runtime, offset) === wanted) return [];
  write(runtime, offset, wanted);
  return [{ id: { kind: 'setting', setting }, text }];
}

/** Without packet programs nobody takes them. */
export const closeDirectPort = (runtime: ArrayTable): void => write(runtime, DIRECT_PORT_OFFSET, 0);

const read = (runtime: ArrayTable, offset: number): number =>
  runtime.view(0).getUint16(runtime.offset(0) + offset, true);

function write(runtime: ArrayTable, offset: number, value: number): void {
  runtime.view(0).setUint16(runtime.offset(0) + offset, value, true);
}

/** Of the devices with the node's addresses the smallest; 0: there is none, which counts as Ethernet's. */
function mtuBetween(
  { links, addresses }: Pick<Network, 'links' | 'addresses'>,
  node: Pick<Plan['node'], 'addresses'>,
): number {
  const own = new Set(FAMILIES.flatMap((family) => node.addresses[family] ?? []));
  const mtus = [...links.values()]
    .filter(({ ifindex }) => addresses.get(ifindex)?.some(({ address }) => own.has(address)))
    .map(({ mtu }) => mtu)
    .filter((mtu) => mtu > 0);
  return mtus.length === 0 ? 0 : Math.min(...mtus, 0xffff);
}
