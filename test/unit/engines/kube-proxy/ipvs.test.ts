// SPDX-License-Identifier: Apache-2.0
// What kube-proxy's ipvs mode leaves, from what the kernel and the tools print, and the commands that remove it.
import { expect, test } from 'vitest';
import {
  type IpvsState,
  ipvsFrontends,
  ipvsRemoval,
  ipvsRows,
  parseAddresses,
  parseSets,
  parseVirtualServers,
} from '../../../../src/engines/kube-proxy/ipvs.ts';

const PROC = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr  persistent 10800 FFFFFFFF
  -> AC120002:192B      Masq    1      0          0
  -> AC120003:192B      Masq    0      2          0
UDP  [fd00:0096:0000:0000:0000:0000:0000:000a]:0035 rr
  -> [fd00:0001:0000:0000:0000:0000:0000:0002]:14E9      Masq    1      0          0
TCP  C0A80001:7594 rr
  -> AC120002:192B      Masq    1      0          0
FWM  00000001 wlc
  -> C0A80005:0000      Route   1      0          0
TCP  C0A800C8:0050 wlc
`;
const SETS = `create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
add KUBE-NODE-PORT-TCP 30100
create KUBE-6-LOAD-BALANCER-SOURCE-CID hash:ip,port,net family inet6
create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536
add KUBE-CLUSTER-IP 10.96.0.1,tcp:443
create KUBE-SRC-2V3X hash:ip family inet
add KUBE-SRC-2V3X 10.1.0.5
`;
const DEVICE = JSON.stringify([
  {
    ifname: 'kube-ipvs0',
    addr_info: [
      { family: 'inet', local: '10.96.0.1', scope: 'global' },
      { family: 'inet6', local: 'fd00:96::a', scope: 'global' },
      { family: 'inet6', local: 'fe80::1', scope: 'link' },
    ],
  },
]);
const state: IpvsState = {
  servers: parseVirtualServers(PROC),
  sets: parseSets(SETS),
  addresses: parseAddresses(DEVICE),
};

test('virtual servers, with their real servers; those of firewall marks have no address', () => {
  expect(state.servers.map((one) => ({ ...one, realServers: one.realServers.length }))).toEqual([
    {
      ...{ protocol: 'TCP', address: '10.96.0.1', port: 443, scheduler: 'rr', realServers: 2 },
      persistence: { jiffies: 10_800, isByAddress: true },
    },
    { protocol: 'UDP', address: 'fd00:96::a', port: 53, scheduler: 'rr', realServers: 1 },
    { protocol: 'TCP', address: '192.168.0.1', port: 30100, scheduler: 'rr', realServers: 1 },
    { protocol: 'TCP', address: '192.168.0.200', port: 80, scheduler: 'wlc', realServers: 0 },
  ]);
});

test('frontends of a family, with the endpoints that get new connections', () => {
  expect([...ipvsFrontends('IPv4', state.servers)]).toEqual([
    ['10.96.0.1:443/TCP', ['172.18.0.2:6443']],
    ['192.168.0.1:30100/TCP', ['172.18.0.2:6443']],
    ['192.168.0.200:80/TCP', []],
  ]);
  expect([...ipvsFrontends('IPv6', state.servers)]).toEqual([
    ['[fd00:96::a]:53/UDP', ['[fd00:1::2]:5353']],
  ]);
});

test('kube-proxy’s are those on kube-ipvs0 and at NodePorts; others are named and stay', () => {
  const { leftovers, kept } = ipvsRows(state);
  expect(leftovers.map(({ kind, what, count }) => `${kind} ${what} ${count}`)).toEqual([
    'virtual server TCP 10.96.0.1:443 2',
    'virtual server UDP [fd00:96::a]:53 1',
    'virtual server TCP 192.168.0.1:30100 1',
    'ipset KUBE-NODE-PORT-TCP 1',
    'ipset KUBE-6-LOAD-BALANCER-SOURCE-CID 0',
    'ipset KUBE-CLUSTER-IP 1',
    'device kube-ipvs0 2',
  ]);
  expect(kept.map(({ what }) => what)).toEqual(['virtual server TCP 192.168.0.200:80']);
});

test('virtual servers go first, then sets, then the device', () => {
  expect(ipvsRemoval(state).map(({ program, args }) => [program, ...args].join(' '))).toEqual([
    'ipvsadm -D -t 10.96.0.1:443',
    'ipvsadm -D -u [fd00:96::a]:53',
    'ipvsadm -D -t 192.168.0.1:30100',
    'ipset destroy KUBE-NODE-PORT-TCP',
    'ipset destroy KUBE-6-LOAD-BALANCER-SOURCE-CID',
    'ipset destroy KUBE-CLUSTER-IP',
    'ip link delete dev kube-ipvs0',
  ]);
});

test('a node that uses ipvs without kube-proxy has nothing of it', () => {
  const others: IpvsState = { servers: state.servers, sets: [], addresses: undefined };
  expect(ipvsRows(others)).toEqual({ leftovers: [], kept: [] });
  expect(ipvsRemoval(others)).toEqual([]);
});
