// SPDX-License-Identifier: Apache-2.0
// The devices and addresses of this machine as Node lists them, asked for again and again: where the addon, and with it netlink,
// is missing. They are up, and what else netlink knows of devices is not known.
import { networkInterfaces } from 'node:os';
import { EMPTY_NETWORK, type Network, type NetworkFollower } from './netlink/network.ts';

const EVERY_MS = 5_000;

type Interfaces = ReturnType<typeof networkInterfaces>;

export function followInterfaces(
  read: () => Interfaces = networkInterfaces,
  everyMs = EVERY_MS,
): NetworkFollower {
  const listeners = new Set<() => void>();
  let text = '';
  let network = EMPTY_NETWORK;
  const refresh = (): void => {
    const next = read();
    const nextText = JSON.stringify(next);
    if (nextText === text) return;
    text = nextText;
    network = networkOf(next);
    for (const listener of [...listeners]) listener();
  };
  refresh();
  const timer = setInterval(refresh, everyMs);
  return {
    current: () => network,
    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    close: () => clearInterval(timer),
  };
}

function networkOf(interfaces: Interfaces): Network {
  const links = new Map<number, NonNullable<ReturnType<Network['links']['get']>>>();
  const addresses = new Map<number, NonNullable<ReturnType<Network['addresses']['get']>>>();
  for (const [index, [name, found = []]] of Object.entries(interfaces).entries()) {
    const ifindex = index + 1;
    const isLoopback = found.some(({ internal }) => internal);
    links.set(ifindex, {
      ...{ ifindex, name, type: isLoopback ? LOOPBACK : ETHERNET, isUp: true, isLoopback },
      ...{ kind: undefined, master: undefined, isPeerElsewhere: false, mac: found[0]?.mac },
      ...{ below: undefined, mtu: 0, tag: undefined },
    });
    addresses.set(
      ifindex,
      found.map(({ family, address, cidr }) => ({
        ...{ ifindex, family, address, prefixLength: Number(cidr?.split('/')[1] ?? 0) },
        isGlobal: !isLoopback && !address.startsWith('fe80:'),
        ...{ isDeprecated: false, isTentative: false, isTemporary: false },
      })),
    );
  }
  return { links, addresses };
}

/** ARPHRD_LOOPBACK and ARPHRD_ETHER. */
const [LOOPBACK, ETHERNET] = [772, 1];
