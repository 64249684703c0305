// SPDX-License-Identifier: Apache-2.0
// Prints what clients saw on nodes with something else on them, by fairlead and by kube-proxy: one table for each kind of node that
// `npm run test:nodes` has recorded in build/test/nodes. docs/install.md has what differs.
import { existsSync, readdirSync, readFileSync } from 'node:fs';

const RECORDED = new URL('../../build/test/nodes/', import.meta.url);
const PROXIES = ['eBPF', 'rules', 'kube-proxy iptables', 'kube-proxy nftables'];

/** Of each table: what the node has. */
const KINDS = {
  docker: "Docker's chains, and a container that publishes a port.",
  exposure: 'Services whose annotations say who may reach them.',
  'forward-drop': 'A chain FORWARD that drops: docker, ufw, firewalld, a policy alone.',
  'host-firewall': 'A firewall that closes NodePorts before addresses are translated.',
  'ipv6-only': 'A node without IPv4.',
  k3s: 'The rules of k3s: flannel, and its NetworkPolicy controller.',
  keepalived: 'An address that moves between nodes.',
  kind: "A node that is a container: docker's DNS, and kindnet's masquerade.",
  'link-dns': 'Sockets that insist on a device, as those of systemd-resolved.',
  localhost: 'NodePorts at loopback addresses, and one source port for two Services.',
  mesh: 'Pods whose rules redirect connections to a proxy beside them.',
  'node-local-dns': "A DNS cache of the node at the ClusterIP of the cluster's DNS.",
  statsd: 'Programs that connect a UDP socket once and ignore errors.',
  'statsd-unprivileged': 'The same, where the agent does not see the processes of the node.',
  'two-uplinks': 'Two uplinks with policy routing.',
  'vpc-cni': 'Second network interfaces, as the AWS VPC CNI has them.',
  vpn: 'Uplinks without a link header: a VPN, and a line to a provider.',
};

const textOf = (answer) => answer.replaceAll('|', '\\|');

/** kind -> what -> proxy -> the last answer. */
function recorded() {
  const kinds = new Map();
  const files = existsSync(RECORDED) ? readdirSync(RECORDED).sort() : [];
  for (const file of files.filter((name) => name.endsWith('.tsv'))) {
    const rows = new Map();
    for (const line of readFileSync(new URL(file, RECORDED), 'utf8').split('\n')) {
      const [what, proxy, answer] = line.split('\t').map(textOf);
      if (!PROXIES.includes(proxy)) continue;
      rows.set(what, { ...rows.get(what), [proxy]: answer });
    }
    kinds.set(file.slice(0, -'.tsv'.length), rows);
  }
  return kinds;
}

function tableOf([kind, rows]) {
  const head = ['case', 'fairlead eBPF', 'fairlead iptables', ...PROXIES.slice(2)];
  const lines = [...rows].map(([what, answers]) => [
    what,
    ...PROXIES.map((one) => answers[one] ?? ''),
  ]);
  const text = [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`);
  return `## ${kind}\n\n${KINDS[kind] ?? ''}\n\n${text.join('\n')}\n`;
}

console.log([...recorded()].map(tableOf).join('\n'));
