// SPDX-License-Identifier: Apache-2.0
// docs/other-nodes.md from what test/integration/nodes has recorded in build/test/nodes: `npm run -s other-nodes` renews the
// tables of the files that have run. With --check: fails if a recorded answer is not the one in the document. What has not
// run, such as kube-proxy without Go, is neither checked nor renewed.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';

const DOCUMENT = new URL('../../docs/other-nodes.md', import.meta.url);
const RECORDED = new URL('../../build/test/nodes/', import.meta.url);
const PROXIES = ['eBPF', 'rules', 'kube-proxy iptables', 'kube-proxy nftables'];
const HEADER = `# Other people's nodes

Each table is a kind of node with something else on it, each row a question of a real client. The columns are the answers of
fairlead by eBPF and by iptables, and of kube-proxy 1.37 in its modes iptables and nftables. \`A:8080 B:8080\` names the backends that
answered. An empty cell has not been asked. The tables are written by \`npm run -s other-nodes\`, from a run of \`npm run test:nodes\`, which
fails if an answer differs.
`;

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

function documented() {
  const kinds = new Map();
  if (!existsSync(DOCUMENT)) return kinds;
  let rows = new Map();
  for (const line of readFileSync(DOCUMENT, 'utf8').split('\n')) {
    if (line.startsWith('## ')) {
      rows = new Map();
      kinds.set(line.slice(3), rows);
    }
    const [what, ...answers] = line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim());
    if (what === undefined || what === 'case' || what.startsWith('---')) continue;
    rows.set(what, Object.fromEntries(PROXIES.map((proxy, at) => [proxy, answers[at]])));
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
  const about = KINDS[kind];
  if (about === undefined) throw new Error(`say in KINDS what a node of the kind ${kind} has`);
  return `\n## ${kind}\n\n${about}\n\n${text.join('\n')}\n`;
}

const [fresh, old] = [recorded(), documented()];
if (process.argv.includes('--check')) {
  const wrong = [...fresh].flatMap(([kind, rows]) =>
    [...rows].flatMap(([what, answers]) =>
      Object.entries(answers)
        .filter(([proxy, answer]) => old.get(kind)?.get(what)?.[proxy] !== answer)
        .map(([proxy, answer]) => `${kind}: ${what}, ${proxy}: ${answer}`),
    ),
  );
  for (const line of wrong) console.error(`docs/other-nodes.md does not say: ${line}`);
  if (wrong.length > 0) console.error('renew it: npm run -s other-nodes');
  process.exitCode = wrong.length > 0 ? 1 : 0;
} else {
  const all = [...new Map([...old, ...fresh])].sort(([one], [other]) => one.localeCompare(other));
  writeFileSync(DOCUMENT, HEADER + all.map(tableOf).join(''));
}
