// SPDX-License-Identifier: Apache-2.0
// ClusterIPs that are addresses of the node: a DNS cache, as NodeLocal DNSCache makes one, or what kube-proxy's mode ipvs has left. Pure.
import type { LocalAddress, OwnFacts } from '../facts.ts';
import type { Finding } from '../finding.ts';
import { listed } from './listed.ts';

/** The device on which kube-proxy's mode ipvs has every address of a Service. */
const IPVS_DEVICE = 'kube-ipvs0';

export function dnsCacheFindings(
  addresses: readonly LocalAddress[],
  { clusterIps }: Pick<OwnFacts, 'clusterIps'>,
): readonly Finding[] {
  const shared = addresses.filter(({ address }) => clusterIps.has(address));
  const left = shared.filter(({ device }) => device === IPVS_DEVICE);
  const caches = shared.filter(({ device }) => device !== IPVS_DEVICE);
  return [
    ...caches.map(
      ({ address, device }): Finding => ({
        topic: 'dns-cache',
        what: `${device} has ${address}, the ClusterIP of ${clusterIps.get(address)}`,
        consequence:
          'a process of the node that listens there is meant to get the requests of this node',
        advice: `see who listens: \`ss -lnp src ${address}\``,
        breaksServices: false,
      }),
    ),
    ...(left.length === 0 ? [] : [leftByIpvs(left)]),
  ];
}

const leftByIpvs = (left: readonly LocalAddress[]): Finding => ({
  topic: 'dns-cache',
  what: `${IPVS_DEVICE} has ${listed(left.map(({ address }) => address))}`,
  consequence: "kube-proxy's mode ipvs has left it: these addresses answer on the node itself",
  advice: `\`ip link del ${IPVS_DEVICE}\`, once kube-proxy does not run any more`,
  breaksServices: false,
});
