// SPDX-License-Identifier: Apache-2.0
// What the kernel has of mode ipvs beside rules: virtual servers, sets, and the addresses of kube-ipvs0. Reads only.
import { existsSync, readFileSync } from 'node:fs';
import { type IpSets, readIpSets } from '../../compare/rules/ipsets.ts';
import { type IpvsServers, ipvsProgram } from '../../compare/rules/ipvs.ts';
import type { Program } from '../../compare/rules/types.ts';
import {
  IPVS_DEVICE,
  isKubeProxys,
  nameOf,
  parseAddresses,
  parseSets,
  parseVirtualServers,
} from '../../engines/kube-proxy/ipvs.ts';
import { addressText, hostPort } from '../../lib/address-bytes.ts';
import { canonicalAddress } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import { type Kept, keptByIpvs } from '../../sys/netlink/ipvs/kept.ts';

/** @returns undefined if the program fails, or is not there */
export type Printed = (argv: readonly string[]) => Promise<string | undefined>;

export interface IpvsOnNode {
  readonly ipsets: IpSets;
  /** undefined: the node has no virtual servers. @param isOwn whether those of kube-proxy are its rules, or of nobody */
  readonly program: (family: Family, isOwn: boolean) => Program | undefined;
}

export async function ipvsOnNode(printed: Printed): Promise<IpvsOnNode> {
  // Without the module there are no sets, and the tool would load it.
  const saved = existsSync('/sys/module/ip_set') ? ((await printed(['ipset', 'save'])) ?? '') : '';
  const servers = parseVirtualServers(textOf('/proc/net/ip_vs') ?? '');
  // /sys may be of another network namespace.
  const hasDevice = textOf('/proc/net/dev')?.includes(`${IPVS_DEVICE}:`) === true;
  const shown = hasDevice
    ? await printed(['ip', '-json', 'address', 'show', 'dev', IPVS_DEVICE])
    : '';
  const addresses = parseAddresses(shown === undefined || shown === '' ? '[]' : shown);
  const isKubeProxy = isKubeProxys({ servers, addresses, sets: parseSets(saved) });
  const isPersistent = servers.some(({ persistence }) => persistence !== undefined);
  const seconds = isPersistent ? secondsByServer() : new Map<string, number>();
  const given: IpvsServers = {
    ...{ servers, addresses, isProxys: isKubeProxy },
    secondsOf: (server) => seconds.get(nameOf(server)),
  };
  return {
    ipsets: readIpSets(saved),
    program: (family, isOwn) =>
      servers.length === 0 && addresses.length === 0
        ? undefined
        : ipvsProgram(family, isOwn ? given : { ...given, isProxys: () => false }),
  };
}

const NAMES: Readonly<Record<number, string>> = { 6: 'TCP', 17: 'UDP', 132: 'SCTP' };
const IPV4_SIZE = 4;

/** By `TCP 10.96.0.10:80`. Nothing if the kernel does not say it. */
function secondsByServer(): ReadonlyMap<string, number> {
  let kept: readonly Kept[];
  try {
    kept = keptByIpvs();
  } catch {
    return new Map();
  }
  return new Map(
    kept.map(({ protocol, address, port, seconds }) => {
      const isIpv4 = address.subarray(IPV4_SIZE).every((byte) => byte === 0);
      const text = addressText(isIpv4 ? address.subarray(0, IPV4_SIZE) : address);
      return [`${NAMES[protocol]} ${hostPort(canonicalAddress(text) ?? text, port)}`, seconds];
    }),
  );
}

/** Counters of connections. */
const COUNTERS = /( +\d+){2} *$/gm;

/** Another one says that virtual servers have changed. */
export const ipvsVersion = (): string => (textOf('/proc/net/ip_vs') ?? '').replace(COUNTERS, '');

/** undefined: this kernel has no such file, which is that of IPVS. */
function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
