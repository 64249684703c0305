// SPDX-License-Identifier: Apache-2.0
// k3s: flannel's rules in nat and filter, and the NetworkPolicy controller of kube-router, which marks what policies allow
// and rejects the rest. Rules as k3s writes them, with the addresses of this cluster.
import { beforeAll, test } from 'vitest';
import type { ProbeTarget } from '../../../support/fixture/programs/probe.ts';
import { onEachProxy } from '../../../support/nodes/other-node.ts';

const PODS = '10.1.0.0/16';
const OWN_PODS = '10.1.1.0/24';
/** The pod A of n1, which a policy closes to all but the pod p1. */
const CLOSED = '10.1.1.5';
const ALLOWED = '10.1.1.9';
const NODE_PORT: ProbeTarget = { protocol: 'TCP', address: '192.0.2.11', port: 30_080 };
const SVC: ProbeTarget = { protocol: 'TCP', address: '10.96.0.10', port: 80 };

const FLANNEL = [
  '*nat',
  ':FLANNEL-POSTRTG - [0:0]',
  '-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG',
  '-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN',
  `-A FLANNEL-POSTRTG -s ${OWN_PODS} -d ${PODS} -m comment --comment "flanneld masq" -j RETURN`,
  `-A FLANNEL-POSTRTG -s ${PODS} -d ${OWN_PODS} -m comment --comment "flanneld masq" -j RETURN`,
  `-A FLANNEL-POSTRTG ! -s ${PODS} -d ${OWN_PODS} -m comment --comment "flanneld masq" -j RETURN`,
  `-A FLANNEL-POSTRTG -s ${PODS} ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully`,
  `-A FLANNEL-POSTRTG ! -s ${PODS} -d ${PODS} -m comment --comment "flanneld masq" -j MASQUERADE --random-fully`,
  'COMMIT',
  '*filter',
  ':FLANNEL-FWD - [0:0]',
  '-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD',
  `-A FLANNEL-FWD -s ${PODS} -m comment --comment "flanneld forward" -j ACCEPT`,
  `-A FLANNEL-FWD -d ${PODS} -m comment --comment "flanneld forward" -j ACCEPT`,
  'COMMIT',
];

const KUBE_ROUTER = [
  '*filter',
  ':KUBE-ROUTER-FORWARD - [0:0]',
  ':KUBE-ROUTER-OUTPUT - [0:0]',
  ':KUBE-ROUTER-INPUT - [0:0]',
  ':KUBE-NWPLCY-ALLOW - [0:0]',
  ':KUBE-POD-FW-A - [0:0]',
  '-I FORWARD 1 -m comment --comment "kube-router netpol" -j KUBE-ROUTER-FORWARD',
  '-I OUTPUT 1 -m comment --comment "kube-router netpol" -j KUBE-ROUTER-OUTPUT',
  '-I INPUT 1 -m comment --comment "kube-router netpol" -j KUBE-ROUTER-INPUT',
  `-A KUBE-ROUTER-FORWARD -d ${CLOSED}/32 -j KUBE-POD-FW-A`,
  `-A KUBE-ROUTER-OUTPUT -d ${CLOSED}/32 -j KUBE-POD-FW-A`,
  `-A KUBE-ROUTER-INPUT -s ${CLOSED}/32 -j KUBE-POD-FW-A`,
  '-A KUBE-POD-FW-A -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
  `-A KUBE-POD-FW-A -d ${CLOSED}/32 -m addrtype --src-type LOCAL -j ACCEPT`,
  `-A KUBE-POD-FW-A -d ${CLOSED}/32 -j KUBE-NWPLCY-ALLOW`,
  '-A KUBE-POD-FW-A -m mark ! --mark 0x10000/0x10000 -j REJECT --reject-with icmp-port-unreachable',
  '-A KUBE-POD-FW-A -j MARK --set-xmark 0x0/0x10000',
  '-A KUBE-POD-FW-A -j MARK --set-xmark 0x20000/0x20000',
  `-A KUBE-NWPLCY-ALLOW -s ${ALLOWED}/32 -j MARK --set-xmark 0x10000/0x10000`,
  '-A KUBE-NWPLCY-ALLOW -m mark --mark 0x10000/0x10000 -j RETURN',
  'COMMIT',
];

onEachProxy('k3s', {}, (node) => {
  beforeAll(async () => {
    await node.rules('n1', 'iptables-nft', FLANNEL);
    await node.serve(['node-port', 'a']);
    // Last: kube-router puts its rules before those of every proxy.
    await node.rules('n1', 'iptables-nft', KUBE_ROUTER);
  });

  test('a pod that a NetworkPolicy allows reaches the Service', () =>
    node.sees('k3s: allowed pod -> ClusterIP', 'A:8080', () => node.ask('p1', SVC)));

  test('a pod that it does not allow is rejected', () =>
    node.sees('k3s: other pod -> ClusterIP', 'refused', () => node.ask('p2', SVC)));

  test('so is a client from outside, by a NodePort', () =>
    node.sees('k3s: outside -> NodePort', 'refused', () => node.ask('X', NODE_PORT)));

  test('a process of the node is allowed', () =>
    node.sees('k3s: node -> ClusterIP', 'A:8080', () => node.ask('n1', SVC)));
});
