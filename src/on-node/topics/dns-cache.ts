// SPDX-License-Identifier: Apache-2.0
// ClusterIPs that are addresses of the node: a DNS cache, as NodeLocal DNSCache makes one, or what kube-proxy's mode ipvs has left. Pure.
import type { LocalAddress, OwnFacts } from '../facts.ts';
import type { Finding } from '../finding.ts';
import { listed } from './listed.ts';

/** The device on which kube-proxy's mode ipvs has every address of a Service. */
const IPVS_DEVICE = 'kube-ipvs0';

export function dnsCacheFindings(
  addresses: readonly LocalAddress[],
  own: Pick<OwnFacts, 'clusterIps' | 'listenedTo'>,
): readonly Finding[] {
  const shared = addresses.filter(({ address }) => own.clusterIps.has(address));
  const left = shared.filter(({ device }) => device === IPVS_DEVICE);
  const caches = shared.filter(({ device }) => device !== IPVS_DEVICE);
  return [
    ...caches.map((cache) => ofCache(cache, own)),
    ...(left.length === 0 ? [] : [leftByIpvs(left)]),
  ];
}

function ofCache(
  { address, device }: LocalAddress,
  { clusterIps, listenedTo }: Pick<OwnFacts, 'clusterIps' | 'listenedTo'>,
): Finding {
  const ports = listenedTo.get(address) ?? [];
  return {
    topic: 'dns-cache',
    what: `${device} has ${address}, the ClusterIP of ${clusterIps.get(address)}`,
    consequence:
      ports.length === 0
        ? 'no process of the node listens at a port of the Service there: the Service serves'
        : `a process of the node listens at ${listed(ports)}: it gets what pods, the node and clients outside send there`,
    ...(ports.length === 0 && {
      advice: `if a DNS cache is to serve there, start it; \`ss -lnp src ${address}\` shows who listens`,
    }),
    breaksServices: false,
  };
}

const leftByIpvs = (left: readonly LocalAddress[]): Finding => ({
  topic: 'dns-cache',
  what: `${IPVS_DEVICE} has ${listed(left.map(({ address }) => address))}`,
  consequence: "kube-proxy's mode ipvs has left it: these addresses answer on the node itself",
  advice: `\`ip link del ${IPVS_DEVICE}\`, once kube-proxy does not run any more`,
  breaksServices: false,
});
