// SPDX-License-Identifier: Apache-2.0
// The flags that kube-proxy does not have, and the field of FairleadConfiguration each one sets.

import { ALGORITHM_NAMES } from '../../plan/decide/balancing.ts';
import { FORWARDING_NAMES } from '../../plan/decide/forwarding.ts';
import { SCOPE_NAMES } from '../../plan/exposure/sources.ts';
import { type FlagRow, own } from './row.ts';

export const FAIRLEAD_FLAGS: readonly FlagRow[] = [
  own(
    'manifests',
    'string',
    'manifests',
    'follow a folder of Service, EndpointSlice and Node manifests instead of an API server',
  ),
  own(
    'manifests-removal-delay',
    'duration',
    'manifestsRemovalDelay',
    'how long a change of the folder waits if it would remove or empty most of ten or more Services (0s: no wait; default 30s)',
  ),
  own('api-server', 'list', 'apiServers', 'URLs of API servers, tried in this order'),
  {
    ...own(
      'engine',
      'string',
      'engine',
      'dataplane: bpf, iptables, or auto: bpf, and iptables for what this node cannot do with eBPF (default auto)',
    ),
    choices: ['auto', 'bpf', 'iptables'],
  },
  own(
    'ephemeral',
    'bool',
    'ephemeral',
    'remove everything from the kernel when the agent stops (default: traffic keeps flowing)',
  ),
  own(
    'take-over',
    'bool',
    'takeOver',
    'take over from an agent that runs with the same --run-dir: it goes on until this one serves, and its ports listen all the while (default: such an agent is an error)',
  ),
  own(
    'ready-file',
    'string',
    'readyFile',
    'file that is there while this agent is ready: for probes that must not be answered by another one',
  ),
  own(
    'cgroup-root',
    'string',
    'cgroupRoot',
    'cgroup v2 directory whose sockets are served by eBPF (default: the whole hierarchy)',
  ),
  own(
    'bpf-root',
    'string',
    'bpfRoot',
    'directory on a bpf file system where maps and links are pinned (default /sys/fs/bpf/fairlead)',
  ),
  own(
    'run-dir',
    'string',
    'runDir',
    'directory for the admin socket and state (default /run/fairlead)',
  ),
  own(
    'cni-conf-dir',
    'string',
    'cniConfDir',
    'directory with the CNI configurations of the node, for `status` (default /etc/cni/net.d)',
  ),
  own(
    'map-size',
    'sizeMap',
    'mapSizes',
    'maximum entries per table, e.g. frontends=65536,backends=131072 (also service-ports, slot-blocks, affinity, source-ranges, flows)',
  ),
  own(
    'devices',
    'list',
    'devices',
    "network devices that get packet programs: names with * and ?, '!' before one excludes it, 'auto' chooses by kind, 'none' leaves packets alone, e.g. to kube-proxy (default auto)",
  ),
  {
    ...own(
      'host-firewall',
      'string',
      'hostFirewall',
      'if a packet filter conflicts with eBPF: obey (rules behind the filter serve packets, with --engine auto and --devices auto) or ignore (default obey)',
    ),
    choices: ['obey', 'ignore'],
  },
  {
    ...own(
      'tc-order',
      'string',
      'tcOrder',
      'order of the packet programs among other tc programs of a device: outer (the others see the addresses of backends) or inner (the others see packets as on the wire) (default outer)',
    ),
    choices: ['outer', 'inner'],
  },
  {
    ...own(
      'socket-scope',
      'string',
      'socketScope',
      'whose connections are translated at the socket: host (the node), pods (all pods, too) or auto (except redirecting pods) (default auto; bpf engine only)',
    ),
    choices: ['auto', 'host', 'pods'],
  },
  own(
    'xdp',
    'list',
    'xdp',
    "devices that forward packets of Services by XDP, before the network stack and past netfilter: auto (network cards that pass a test), native (virtual devices, too) or off, for all devices or one, as in 'auto,eth1=off' (default off; bpf engine only)",
  ),
  own(
    'audit-interval',
    'duration',
    'auditInterval',
    'how often the kernel is read back and drift is repaired (default 10m)',
  ),
  own(
    'external-ips',
    'bool',
    'allowExternalIPs',
    'serve spec.externalIPs (default true; see CVE-2020-8554)',
  ),
  {
    ...own(
      'algorithm',
      'string',
      'algorithm',
      `how a backend is chosen for Services without the annotation fairlead.io/algorithm: ${ALGORITHM_NAMES.join(', ')} (default random)`,
    ),
    choices: ALGORITHM_NAMES,
  },
  {
    ...own(
      'forwarding',
      'string',
      'forwarding',
      'how requests from outside go to other nodes for Services without the annotation fairlead.io/forwarding: snat (masqueraded, answers come back through this node), dsr (unchanged, answered directly) or hybrid (TCP dsr, UDP snat) (default snat)',
    ),
    choices: FORWARDING_NAMES,
  },
  own(
    'direct-return-secret-file',
    'string',
    'directReturnSecretFile',
    'file with one or two secrets of the cluster, a line each: nodes prove them to each other with direct return. It is read again when it changes (default: none, the address of a node is enough)',
  ),
  {
    ...own(
      'external-algorithm',
      'string',
      'externalAlgorithm',
      'the same for clients from outside, at NodePorts, external and load balancer addresses (default: as --algorithm)',
    ),
    choices: ALGORITHM_NAMES,
  },
  {
    ...own(
      'source-ranges-scope',
      'string',
      'sourceRangesScope',
      'where spec.loadBalancerSourceRanges hold for Services without the annotation fairlead.io/source-ranges-scope: LoadBalancer (load balancer addresses alone) or all (NodePorts and external IPs, too) (default LoadBalancer)',
    ),
    choices: SCOPE_NAMES,
  },
  own(
    'reset-tcp-connections',
    'bool',
    'resetTCPConnections',
    'reset TCP connections whose endpoint no longer serves (default: they are left to end by themselves; bpf engine only)',
  ),
  own(
    'answer-ping',
    'bool',
    'answerPing',
    'answer pings (ICMP echo requests) to ClusterIPs, load balancer addresses and external IPs (default false; bpf engine only)',
  ),
  own(
    'nodeport-bind-protection',
    'bool',
    'nodePortBindProtection',
    'processes of the node cannot bind NodePorts (default true; bpf engine only)',
  ),
  {
    ...own('log-level', 'string', 'logLevel', 'debug, info, warn or error (default info)'),
    choices: ['debug', 'info', 'warn', 'error'],
  },
  {
    ...own('log-format', 'string', 'logFormat', 'json or text (default json)'),
    choices: ['json', 'text'],
  },
  own(
    'metrics-top-services',
    'int',
    'metricsTopServices',
    'number of Services, the busiest first, with their own counters on /metrics (default 0; bpf engine only)',
  ),
];
