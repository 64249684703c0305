// SPDX-License-Identifier: Apache-2.0
// Addresses of Services on the loopback device, so that connections to them come to the agent's sockets. Only those that an agent
// has added are removed, and none that the node has for another reason.
import { reasonOf } from '../../../errors.ts';
import { familyOf } from '../../../lib/ip.ts';
import {
  addLoopbackAddress,
  removeLoopbackAddress,
} from '../../../sys/netlink/loopback-address.ts';
import type { FailedEntry, NodeAddress } from '../../dataplane.ts';
import { addressesOf, type Listener } from '../listeners/listeners.ts';

export interface AddressKeeper {
  /** The addresses that the node has without the agent. */
  without(addresses: readonly NodeAddress[]): readonly NodeAddress[];
  /** @param record writes down `own`, before an address is added: what is not written down is not added */
  add(listeners: Iterable<Listener>, record: () => boolean): readonly FailedEntry[];
  removeOthers(listeners: Iterable<Listener>): void;
  own(): ReadonlySet<string>;
}

export interface LoopbackCalls {
  /** True: added; false: the device has it already. Throws an Error that has the name of the errno. */
  add(address: string): boolean;
  remove(address: string): void;
}

const KERNEL: LoopbackCalls = { add: addLoopbackAddress, remove: removeLoopbackAddress };

/** @param former those that an earlier agent has added */
export function keepAddresses(
  former: ReadonlySet<string>,
  { add, remove }: LoopbackCalls = KERNEL,
): AddressKeeper {
  const own = new Set(former);
  /** Of the node itself as of the last sync: nothing is to be added. */
  let ofNode: ReadonlySet<string> = new Set();
  return {
    own: () => own,
    without(addresses) {
      const others = addresses.filter(({ address }) => !own.has(address));
      ofNode = new Set(others.map(({ address }) => address));
      return others;
    },
    add(listeners, record) {
      const all = [...listeners];
      const before = new Set(own);
      const missing = [...addressesOf(all)].filter((address) => !ofNode.has(address));
      for (const address of missing) own.add(address);
      const isWritten = record();
      return missing.flatMap((address) => {
        try {
          if (!isWritten) throw new Error('it cannot be written down in --run-dir');
          if (!add(address) && !before.has(address)) own.delete(address);
          return [];
        } catch (error) {
          if (!before.has(address)) own.delete(address);
          const service = all.find(({ frontend }) => frontend.address === address)?.service;
          return [failedAddress(address, service, error)];
        }
      });
    },
    removeOthers(listeners) {
      const wanted = addressesOf(listeners);
      for (const address of [...own].filter((one) => !wanted.has(one))) {
        try {
          remove(address);
          own.delete(address);
        } catch {
          // It stays in the record: the next sync tries again, and so does cleanup.
        }
      }
    },
  };
}

const failedAddress = (
  address: string,
  service: string | undefined,
  error: unknown,
): FailedEntry => ({
  id: { kind: 'node-address', family: familyOf(address), address },
  text: `address ${address}`,
  code: 'WRITE_FAILED',
  reason: `cannot add ${address} to the loopback device: ${reasonOf(error)}; see ip address show lo`,
  ...(service !== undefined && { service }),
});
