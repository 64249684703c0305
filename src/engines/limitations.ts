// SPDX-License-Identifier: Apache-2.0
// What a dataplane cannot do for anything that it serves, in the words of every view; what it cannot serve at all is
// in capabilities.ts.
//   limitationsOf(IPTABLES) -> [{ dataplane: 'iptables', code: 'COUNTERS', reason: 'connections are not counted' }, …]
import { ALGORITHM_NAMES } from '../plan/decide/balancing.ts';
import type { Capabilities, Limitation } from './capabilities.ts';

export const LIMITATIONS = {
  SHADOW: 'nothing is served or changed: the plan is compared with the rules of kube-proxy',
  COUNTERS: 'connections are not counted or listed',
  NODE_SOCKETS:
    'sockets of the node are not told from those of pods: NodePorts do not answer at 127.0.0.1, and processes of the node may bind them',
  LOOPBACK: 'NodePorts do not answer at loopback addresses',
  HAIRPIN:
    'a backend of another node that asks through this one, and gets itself, sees its own address',
  BYPASS: 'no cgroup can be bypassed',
  AFFINITY_CLIENTS: 'session affinity remembers %d clients for each endpoint',
  ALGORITHMS: 'backends are chosen at random instead of by %a',
  DIRECT_RETURN: 'there is no direct return%w: what goes to other nodes is masqueraded',
  OFFLOAD:
    'established TCP connections that are routed here pass by filters of the node, and their bytes are not counted: they are in a flowtable',
  NO_OFFLOAD: 'no connections are offloaded to a flowtable: %o',
  PORT_MAP: 'addresses that the node lacks are at ports of 127.0.0.1: services -o wide has them',
  CLIENT_ADDRESS: 'endpoints see an address of the node instead of the client',
  PROXY_PROTOCOL: 'fairlead.io/proxy-protocol names the client for TCP alone',
  AFFINITY: 'session affinity is forgotten with the agent',
  RESETS: 'TCP connections that are to be dropped are reset',
  AGENT:
    'connections end with the agent, or when another engine takes over, and none begin without it',
  VERIFY: 'verify compares what the agent relays: there are no maps or rules to read',
  SLOW_RELAY: 'bytes of TCP connections pass through JavaScript, several times slower: %r',
} as const;

export type LimitationCode = keyof typeof LIMITATIONS;

/** Of all that it serves. */
export function limitationsOf(capabilities: Capabilities): readonly Limitation<LimitationCode>[] {
  const { dataplane, serves, countsConnections, knowsNode, canBypass } = capabilities;
  const { affinityClients, directReturn, noDirectReturn, answersLoopback } = capabilities;
  const { masqueradesItself } = capabilities;
  const { relays, slowRelay, offload } = capabilities;
  if (capabilities.isShadow === true)
    return [{ dataplane, code: 'SHADOW', reason: LIMITATIONS.SHADOW }];
  const missing = ALGORITHM_NAMES.filter((name) => !capabilities.algorithms.includes(name));
  const unweighted = missing.filter((name) => !name.startsWith('weighted-'));
  const applies: Readonly<Record<LimitationCode, boolean>> = {
    SHADOW: false,
    COUNTERS: !countsConnections,
    NODE_SOCKETS: !knowsNode,
    LOOPBACK: answersLoopback === false,
    HAIRPIN: masqueradesItself === false,
    BYPASS: !canBypass,
    AFFINITY_CLIENTS: affinityClients !== undefined,
    ALGORITHMS: missing.length > 0,
    DIRECT_RETURN: serves.outside !== undefined && !directReturn,
    OFFLOAD: offload !== undefined && offload.reason === undefined,
    NO_OFFLOAD: offload?.reason !== undefined,
    PORT_MAP: relays === 'port-map',
    CLIENT_ADDRESS: relays !== undefined,
    PROXY_PROTOCOL: relays !== undefined,
    AFFINITY: relays !== undefined,
    RESETS: relays !== undefined,
    AGENT: relays !== undefined,
    VERIFY: relays !== undefined,
    SLOW_RELAY: slowRelay !== undefined,
  };
  const words: Readonly<Record<string, string>> = {
    '%d': `${affinityClients}`,
    '%a': unweighted.join(', '),
    '%r': slowRelay ?? '',
    '%o': offload?.reason ?? '',
    '%w': noDirectReturn === undefined ? '' : ` (${noDirectReturn})`,
  };
  const reasonOf = (code: LimitationCode): string =>
    LIMITATIONS[code].replace(/%[darwo]/, (name) => words[name] ?? name);
  return (Object.keys(LIMITATIONS) as LimitationCode[])
    .filter((code) => applies[code])
    .map((code) => ({ dataplane, code, reason: reasonOf(code) }));
}
