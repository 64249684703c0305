// SPDX-License-Identifier: Apache-2.0
// The network of the checks. The node is the network namespace that they run in.
//
//   out ══ 2 veths in bonds, VLAN 10 ══ node ── veth ── pod a 10.1.1.5
//    └──── a veth that is moved ──────────┤
//                                         └── tun1 (ipip, gre, geneve) ── far ── veth ── pod b 10.1.2.5
import { spawnSync } from 'node:child_process';

/** @param {string} namespace @param {readonly string[]} lines @param {readonly ('-4' | '-6')[]} family of rules */
export function ip(namespace, lines, ...family) {
  const where = [...family, ...(namespace === '' ? [] : ['-n', namespace])];
  const { status, stderr } = spawnSync('ip', [...where, '-batch', '-'], {
    input: lines.join('\n'),
  });
  if (status !== 0) throw new Error(`ip ${where.join(' ')}: ${stderr}`);
}

/** What runs a program in a namespace. @param {string} namespace @param {readonly string[]} argv */
export function inside(namespace, argv) {
  const [program = '', ...args] = argv;
  if (namespace === '') return /** @type {const} */ ([program, args]);
  return /** @type {const} */ (['ip', ['netns', 'exec', namespace, ...argv]]);
}

/** A wire of its own to the outside, until it becomes a port of the bonds. */
export const MOVED = 'port2';

/** The bonds use it alone: a device is down when it gets a master, and its peer sees that. */
export function moveUnderBond() {
  for (const here of ['', 'out']) {
    ip(here, [`link set ${MOVED} down`, `link set ${MOVED} master bond1`]);
  }
  for (const name of ['port0', 'port1']) ip('out', [`link set ${name} down`]);
}

/** The bonds have their first ports again. */
export function moveBack() {
  for (const name of ['port0', 'port1']) ip('out', [`link set ${name} up`]);
  for (const here of ['', 'out']) ip(here, [`link set ${MOVED} nomaster`, `link set ${MOVED} up`]);
}

/** Both ends of the wire to the outside. @param {number} host */
const bonded = (host) => [
  'link add bond1 type bond mode active-backup miimon 100',
  'link set port0 master bond1',
  'link set port1 master bond1',
  'link set bond1 up',
  'link add link bond1 name bond1.10 type vlan id 10',
  `addr add 192.0.2.${host}/24 dev bond1.10`,
  `addr add 2001:db8::${host}/64 dev bond1.10 nodad`,
  'link set bond1.10 up',
];

const ELSEWHERE = /** @type {const} */ ([
  { family: '-4', pod: '10.1.1.5', next: '10.8.0.9' },
  { family: '-6', pod: '2001:db8:1:1::5', next: 'fd00:8::9' },
]);

/** The pod's packets are routed to nobody: only what leaves by the VLAN is answered. @param {'add' | 'del'} action */
export function routeElsewhere(action) {
  for (const { family, pod, next } of ELSEWHERE) {
    const lines = [
      `neigh ${action} ${next} lladdr 02:00:00:00:00:99 dev ${MOVED}`,
      `route ${action} default via ${next} dev ${MOVED} onlink table 7`,
      `rule ${action} from ${pod} lookup 7 pref 100`,
    ];
    ip('', lines, family);
  }
}

/** A pod and the node's end of its veth. @param {string} name @param {number} node */
function addPod(name, node) {
  const here = node === 1 ? '' : 'far';
  const address = `10.1.${node}.5`;
  const address6 = `2001:db8:1:${node}::5`;
  ip(here, [
    `link add v-${name} address ee:ee:ee:ee:ee:ee type veth peer name eth0 netns ${name}`,
    `link set v-${name} up`,
    `addr add fe80::1/64 dev v-${name} nodad`,
    `route add ${address}/32 dev v-${name}`,
    `route add ${address6}/128 dev v-${name}`,
  ]);
  ip(name, [
    'link set lo up',
    `addr add ${address}/32 dev eth0`,
    `addr add ${address6}/128 dev eth0 nodad`,
    'link set eth0 up',
    'neigh add 169.254.1.1 lladdr ee:ee:ee:ee:ee:ee dev eth0 nud permanent',
    'route add 169.254.1.1 dev eth0 scope link',
    'route add default via 169.254.1.1 dev eth0',
    'route add default via fe80::1 dev eth0',
  ]);
}

/** An Ethernet tunnel, whose neighbours are known as flannel makes them. @param {number} own @param {number} other */
const geneve = (own, other) => [
  `link add tun1 address 02:00:00:00:00:0${own} type geneve id 7 remote 10.9.0.${other}`,
  `addr add 10.1.${own}.1/32 dev tun1`,
  'link set tun1 mtu 1400 up',
  `route add 10.1.${other}.0/24 via 10.1.${other}.1 dev tun1 onlink`,
  `neigh add 10.1.${other}.1 lladdr 02:00:00:00:00:0${other} dev tun1 nud permanent`,
];

/** One without link headers. @param {string} kind @param {number} own @param {number} other */
const l3 = (kind, own, other) => [
  `link add tun1 type ${kind} ttl 64 local 10.9.0.${own} remote 10.9.0.${other}`,
  `addr add 10.1.${own}.1/32 dev tun1`,
  'link set tun1 mtu 1400 up',
  `route add 10.1.${other}.0/24 dev tun1`,
];

/** @param {string} kind */
export function addTunnel(kind) {
  ip('', kind === 'geneve' ? geneve(1, 2) : l3(kind, 1, 2));
  ip('far', kind === 'geneve' ? geneve(2, 1) : l3(kind, 2, 1));
}

export function removeTunnel() {
  for (const here of ['', 'far']) ip(here, ['link del tun1']);
}

/** @param {string} namespace @param {string} name */
function setSysctl(namespace, name) {
  const [program, args] = inside(namespace, ['sh', '-c', `echo 1 >/proc/sys/${name}`]);
  const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

const NAMESPACES = ['out', 'far', 'a', 'b'];

export function removeNetwork() {
  for (const name of NAMESPACES) spawnSync('ip', ['netns', 'del', name]);
}

export function buildNetwork() {
  ip('', [...NAMESPACES.map((name) => `netns add ${name}`), 'link set lo up']);
  ip('', [
    'link add port0 type veth peer name port0 netns out',
    'link add port1 type veth peer name port1 netns out',
    `link add ${MOVED} type veth peer name ${MOVED} netns out`,
    // Without an address it would be taken for the device of a pod.
    `addr add 10.8.0.1/24 dev ${MOVED}`,
    `link set ${MOVED} up`,
    'link add under type veth peer name under netns far',
    'addr add 10.9.0.1/24 dev under',
    'link set under up',
    ...bonded(11),
  ]);
  ip('out', ['link set lo up', `link set ${MOVED} up`, ...bonded(9)]);
  ip('far', ['link set lo up', 'addr add 10.9.0.2/24 dev under', 'link set under up']);
  for (const name of ['net/ipv4/ip_forward', 'net/ipv6/conf/all/forwarding']) {
    setSysctl('', name);
    setSysctl('far', name);
  }
  addPod('a', 1);
  addPod('b', 2);
  addTunnel('ipip');
}
