// SPDX-License-Identifier: Apache-2.0
// What is looked for on a node besides fairlead, why it matters, and what is done about it: the same words in `fairlead probe` and in
// docs/install.md, which a test compares. Pure.
import type { Topic } from './finding.ts';

export interface TopicRow {
  readonly title: string;
  /** What is looked at, and where. */
  readonly looksAt: string;
  /** What it does to Services, whichever proxy serves them. */
  readonly matters: string;
  /** What fairlead does by itself. */
  readonly handled: string;
  /** What is left to people. */
  readonly advice: string;
}

/** In the order in which they are shown. */
export const TOPICS: Readonly<Record<Topic, TopicRow>> = {
  forward: {
    title: 'FORWARD policies',
    looksAt: 'the policy DROP of FORWARD in filter, and chains of nft at that hook',
    matters: 'docker, ufw and firewalld drop what the node forwards to pods',
    handled: 'Service traffic is accepted as under kube-proxy, where iptables is installed',
    advice: 'without iptables on the node, add the rule that `status` shows',
  },
  'host-firewall': {
    title: 'Host firewalls',
    looksAt: 'rules that drop in raw and mangle PREROUTING, and chains of nft at that hook',
    matters: 'a rule that closes a NodePort must see the NodePort, not the endpoint',
    handled: 'packets are served by rules behind the firewall; sockets stay with eBPF',
    advice: 'nothing; or close NodePorts by the Service itself',
  },
  'policy-routing': {
    title: 'Policy routing',
    looksAt: '`ip rule`, beyond the rules for the tables local, main and default',
    matters: 'a rule for the address of a pod may send an answer out by another device',
    handled: 'by eBPF an answer leaves by the device that its request came in by',
    advice: 'with `--engine iptables`, keep the rules that your CNI writes into mangle',
  },
  marks: {
    title: 'Marks of other programs',
    looksAt: '`fwmark` in `ip rule`; MARK and CONNMARK in rules of nf_tables',
    matters: 'a bit that two programs use sends packets astray, or masquerades them',
    handled: 'by eBPF no mark is set; rules use one bit, 0x4000 unless set',
    advice: 'on a clash, set `iptables.masqueradeBit` to a bit that nobody uses',
  },
  cni: {
    title: 'CNI',
    looksAt: 'the files of `--cni-conf-dir`, /etc/cni/net.d unless set',
    matters: 'some network plugins serve Services themselves, or redirect packets past the stack',
    handled: 'devices of pods are recognized by their kind, whatever plugin made them',
    advice: 'switch off the Service proxy of the plugin that is named',
  },
  mesh: {
    title: 'Service meshes',
    looksAt: 'istio-cni and linkerd-cni among the plugins of the CNI',
    matters: 'a proxy in the pod asks for the address that its client has connected to',
    handled: 'pods that redirect connections are served as packets (`--socket-scope auto`)',
    advice: 'set `--socket-scope host` where `status` says that `auto` is not possible',
  },
  'dns-cache': {
    title: 'DNS caches',
    looksAt: 'ClusterIPs that are addresses of a device of the node',
    matters: 'NodeLocal DNSCache listens at the ClusterIP of kube-dns on the node itself',
    handled: 'a process that listens at the address and a port of the Service gets its requests',
    advice: 'nothing; or remove kube-ipvs0 if an earlier proxy has left it',
  },
  'rp-filter': {
    title: 'Reverse path filters',
    looksAt: '`net.ipv4.conf.*.rp_filter` of each device that is no pod',
    matters: 'a strict filter drops what comes in by a device that does not lead back',
    handled: 'answers keep their device; what the filter drops before that is lost',
    advice: 'on nodes with several uplinks, set 2 (loose) as the CNIs of clouds do',
  },
  'other-programs': {
    title: 'Other BPF programs',
    looksAt: 'tcx, clsact and XDP of each device, and the hooks of the cgroup',
    matters: 'a program before ours may take a packet, or end the chain',
    handled: 'ours are first at ingress and last at egress when they are attached',
    advice: 'restart the agent if another program came before it, or use `--tc-order inner`',
  },
};

export const TOPIC_NAMES = Object.keys(TOPICS) as readonly Topic[];
