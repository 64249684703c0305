// SPDX-License-Identifier: Apache-2.0
// Settings of what a Service means on this node: the defaults of its annotations, and switches for all Services.
import { ANNOTATIONS } from '../../model/annotations.ts';
import { ALGORITHM_NAMES } from '../../plan/decide/balancing.ts';
import { FORWARDING_NAMES } from '../../plan/decide/forwarding.ts';
import { SCOPE_NAMES } from '../../plan/exposure/sources.ts';
import { bool, choice, type Setting, text } from './row.ts';

export const SERVICE_SETTINGS = {
  allowExternalIPs: {
    flag: 'external-ips',
    ...bool,
    default: true,
    help: 'serve spec.externalIPs (default true; see CVE-2020-8554)',
    doc: 'false rejects spec.externalIPs (CVE-2020-8554)',
    isOfPlan: true,
    written: ({ plan }) => plan.allowExternalIps,
  },
  algorithm: {
    flag: 'algorithm',
    annotation: ANNOTATIONS.algorithm.name,
    ...choice(ALGORITHM_NAMES),
    default: 'random',
    help: `how a backend is chosen for Services without the annotation fairlead.io/algorithm: ${ALGORITHM_NAMES.join(', ')} (default random)`,
    doc: 'for Services without the annotation `fairlead.io/algorithm`: see [algorithms](semantics.md#algorithms)',
    onIptables: {
      reason:
        'remapped by the iptables engine, which chooses at random, by weight if the algorithm weighs',
      except: ['random', 'weighted-random'],
    },
    isOfPlan: true,
    written: ({ plan }) => plan.algorithm ?? 'random',
  },
  forwarding: {
    flag: 'forwarding',
    annotation: ANNOTATIONS.forwarding.name,
    ...choice(FORWARDING_NAMES),
    default: 'snat',
    help: 'how requests from outside go to other nodes for Services without the annotation fairlead.io/forwarding: snat (masqueraded, answers come back through this node), dsr (unchanged, answered directly) or hybrid (TCP dsr, UDP snat) (default snat)',
    doc: 'for Services without the annotation `fairlead.io/forwarding`: `snat`, `dsr` or `hybrid`; see [forwarding](semantics.md#forwarding)',
    onIptables: {
      reason: 'remapped by the iptables engine, which always masquerades: snat',
      except: ['snat'],
    },
    isOfPlan: true,
    written: ({ plan }) => plan.forwarding ?? 'snat',
  },
  directReturnSecretFile: {
    flag: 'direct-return-secret-file',
    ...text,
    defaultText: 'none',
    help: 'file with one or two secrets of the cluster, a line each: nodes prove them to each other with direct return. It is read again when it changes (default: none, the address of a node is enough)',
    doc: 'file with the secrets that nodes prove to each other with direct return; see [direct return](direct-return.md#a-secret-between-the-nodes)',
    onIptables: { reason: 'ignored by the iptables engine: there is no direct return' },
    written: ({ own }) => own.directReturnSecretFile,
  },
  externalAlgorithm: {
    flag: 'external-algorithm',
    annotation: ANNOTATIONS.algorithm.name,
    ...choice(ALGORITHM_NAMES),
    defaultFrom: 'algorithm',
    defaultText: 'as `algorithm`',
    help: 'the same for clients from outside, at NodePorts, external and load balancer addresses (default: as --algorithm)',
    doc: 'the same for clients from outside, at NodePorts, external and load balancer addresses; see [Maglev](semantics.md#maglev)',
    onIptables: {
      reason: 'ignored by the iptables engine: clients from outside get backends as others do',
    },
    isOfPlan: true,
    written: ({ plan }) => plan.externalAlgorithm ?? plan.algorithm ?? 'random',
  },
  sourceRangesScope: {
    flag: 'source-ranges-scope',
    annotation: ANNOTATIONS.scope.name,
    ...choice(SCOPE_NAMES),
    default: 'LoadBalancer',
    help: 'where spec.loadBalancerSourceRanges hold for Services without the annotation fairlead.io/source-ranges-scope: LoadBalancer (load balancer addresses alone) or all (NodePorts and external IPs, too) (default LoadBalancer)',
    doc: 'for Services without the annotation `fairlead.io/source-ranges-scope`: `LoadBalancer` or `all`; see [semantics](semantics.md#who-may-reach-a-service-and-where)',
    isOfPlan: true,
    written: ({ plan }) => plan.sourceRangesScope ?? 'LoadBalancer',
  },
  topology: {
    flag: 'topology',
    annotation: ANNOTATIONS.topology.name,
    ...choice(ANNOTATIONS.topology.values),
    default: 'hints',
    help: 'which endpoints are near enough for Services without the annotation fairlead.io/topology: hints (as EndpointSlices say), ignore (all), prefer-zone or prefer-node (by where endpoints are) (default hints)',
    doc: 'for Services without the annotation `fairlead.io/topology`: `hints`, `ignore`, `prefer-zone` or `prefer-node`; see [endpoints](semantics.md#endpoints)',
    isOfPlan: true,
    written: ({ plan }) => plan.topology ?? 'hints',
  },
  resetTCPConnections: {
    flag: 'reset-tcp-connections',
    ...bool,
    default: false,
    help: 'reset TCP connections whose endpoint no longer serves (default: they are left to end by themselves; bpf engine only)',
    doc: 'reset both ends of TCP connections whose endpoint no longer serves',
    onIptables: {
      reason: 'ignored by the iptables engine: TCP connections are left to end by themselves',
    },
    written: ({ own }) => own.resetsTcp,
  },
  answerPing: {
    flag: 'answer-ping',
    ...bool,
    default: false,
    help: 'answer pings (ICMP echo requests) to ClusterIPs, load balancer addresses and external IPs (default false; bpf engine only)',
    doc: 'answer [pings](semantics.md#pings) to ClusterIPs, load balancer addresses and external IPs',
    onIptables: { reason: 'ignored by the iptables engine: pings are not answered' },
    written: ({ own }) => own.answersPing,
  },
  nodePortBindProtection: {
    flag: 'nodeport-bind-protection',
    ...bool,
    default: true,
    help: 'processes of the node cannot bind NodePorts (default true; bpf engine only)',
    doc: 'processes of the node cannot bind NodePorts: see [semantics](semantics.md#masquerade-and-the-node)',
    onIptables: {
      reason: 'ignored by the iptables engine: processes of the node can bind NodePorts',
    },
    written: ({ own }) => own.protectsNodePorts,
  },
} as const satisfies Readonly<Record<string, Setting>>;
