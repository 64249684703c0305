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
  return `\n## ${kind}\n\n${text.join('\n')}\n`;
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
