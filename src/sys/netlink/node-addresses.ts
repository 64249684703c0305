// SPDX-License-Identifier: Apache-2.0
// The addresses of this node, as its own network namespace has them. Knows no Services.
import type { Network, NetworkFollower } from './network.ts';

export interface NodeAddress {
  readonly family: 'IPv4' | 'IPv6';
  readonly address: string;
}

/** A value that changes by itself. */
export interface NodeAddresses {
  /** The same array until an address comes or goes. */
  current(): readonly NodeAddress[];
  listen(listener: () => void): void;
}

/**
 * Of all devices that are up, each once. Without IPv6 link-local addresses, which are ambiguous without a zone; the
 * kernel has no local routes for addresses of devices that are down.
 */
function nodeAddressesIn({ links, addresses }: Network): readonly NodeAddress[] {
  const found = new Map<string, NodeAddress>();
  for (const { ifindex, isUp } of links.values()) {
    for (const { family, address } of isUp ? (addresses.get(ifindex) ?? []) : []) {
      if (!address.startsWith('fe80:')) found.set(address, { family, address });
    }
  }
  return [...found.values()];
}

export function nodeAddressesOf(network: NetworkFollower): NodeAddresses {
  const listeners: (() => void)[] = [];
  let current = nodeAddressesIn(network.current());
  network.listen(() => {
    const next = nodeAddressesIn(network.current());
    if (textOf(next) === textOf(current)) return;
    current = next;
    for (const listener of listeners) listener();
  });
  return { current: () => current, listen: (listener) => void listeners.push(listener) };
}

/** Without these, which the node has for the sake of Services. */
export function withoutAddresses(all: NodeAddresses, left: readonly string[]): NodeAddresses {
  if (left.length === 0) return all;
  const isLeft = new Set(left);
  const rest = (): readonly NodeAddress[] =>
    all.current().filter(({ address }) => !isLeft.has(address));
  let current = rest();
  all.listen(() => {
    const next = rest();
    if (textOf(next) !== textOf(current)) current = next;
  });
  return { current: () => current, listen: all.listen };
}

const textOf = (addresses: readonly NodeAddress[]): string =>
  addresses
    .map(({ address }) => address)
    .sort()
    .join();
