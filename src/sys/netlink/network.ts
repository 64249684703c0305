// SPDX-License-Identifier: Apache-2.0
// The devices of a network namespace and their addresses, kept up to date by rtnetlink's messages. Pure: messages
// in, a new value out.
import { addressOf, type Link, type LinkAddress, linkOf, RTM } from './records.ts';
import type { Message } from './wire.ts';

export interface Network {
  /** By ifindex. */
  readonly links: ReadonlyMap<number, Link>;
  /** By ifindex, in the kernel's order, later ones last. */
  readonly addresses: ReadonlyMap<number, readonly LinkAddress[]>;
}

export interface NetworkFollower {
  /** As of the last turn of the event loop in which something changed. */
  current(): Network;
  /** Calls `listener` after each change, until the returned function is called. */
  listen(listener: () => void): () => void;
  /** Idempotent. */
  close(): void;
}

export const EMPTY_NETWORK: Network = { links: new Map(), addresses: new Map() };

/** The same value if nothing has changed. A message that was applied before changes nothing. */
export function withMessages(network: Network, messages: Iterable<Message>): Network {
  const links = new Map(network.links);
  const addresses = new Map(network.addresses);
  let isChanged = false;
  for (const message of messages) isChanged = apply(links, addresses, message) || isChanged;
  return isChanged ? { links, addresses } : network;
}

type Addresses = Map<number, readonly LinkAddress[]>;

function apply(links: Map<number, Link>, addresses: Addresses, message: Message): boolean {
  switch (message.type) {
    case RTM.NEWLINK:
      return putLink(links, linkOf(message));
    case RTM.DELLINK:
      return dropLink(links, addresses, linkOf(message));
    case RTM.NEWADDR:
      return putAddress(addresses, addressOf(message));
    case RTM.DELADDR:
      return dropAddress(addresses, addressOf(message));
    default:
      return false;
  }
}

function putLink(links: Map<number, Link>, link: Link | undefined): boolean {
  if (link === undefined || isSame(links.get(link.ifindex), link)) return false;
  links.set(link.ifindex, link);
  return true;
}

function dropLink(links: Map<number, Link>, addresses: Addresses, link: Link | undefined): boolean {
  if (link === undefined) return false;
  addresses.delete(link.ifindex);
  return links.delete(link.ifindex);
}

function putAddress(addresses: Addresses, put: LinkAddress | undefined): boolean {
  if (put === undefined) return false;
  const all = addresses.get(put.ifindex) ?? [];
  const at = all.findIndex((one) => isSameAddress(one, put));
  if (isSame(all[at], put)) return false;
  addresses.set(put.ifindex, at < 0 ? [...all, put] : all.with(at, put));
  return true;
}

function dropAddress(addresses: Addresses, gone: LinkAddress | undefined): boolean {
  if (gone === undefined) return false;
  const all = addresses.get(gone.ifindex) ?? [];
  const left = all.filter((one) => !isSameAddress(one, gone));
  if (left.length === 0) addresses.delete(gone.ifindex);
  else addresses.set(gone.ifindex, left);
  return left.length < all.length;
}

/** The kernel lets a device have one address with several prefix lengths. */
const isSameAddress = (a: LinkAddress, b: LinkAddress): boolean =>
  a.address === b.address && a.prefixLength === b.prefixLength;

function isSame<T extends object>(a: T | undefined, b: T): boolean {
  return a !== undefined && Object.entries(b).every(([key, value]) => a[key as keyof T] === value);
}
