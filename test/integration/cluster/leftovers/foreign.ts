// SPDX-License-Identifier: Apache-2.0
// Rules that a node has besides kube-proxy's: of the kubelet, of plugins of the container network, and an administrator's.

import { type RunOptions, run } from '../../../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from '../../../../tools/lab/sandbox.ts';

export type Variant = 'nft' | 'legacy';

const RULES = `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-POD-FW-2V3XK5 - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -p tcp -m tcp --dport 22 -m comment --comment "ssh, not KUBE-SERVICES" -j ACCEPT
-A FORWARD -m comment --comment "policy of a pod" -j KUBE-POD-FW-2V3XK5
-A OUTPUT -j KUBE-FIREWALL
-A OUTPUT -m conntrack --ctstate INVALID -j ACCEPT
-A KUBE-POD-FW-2V3XK5 -m mark ! --mark 0x10000/0x10000 -j RETURN
COMMIT
*nat
:CNI-DN-0123456789abcdef - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-DROP - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"cbr0\\" id: \\"x\\"" -m multiport --dports 18080 -j CNI-DN-0123456789abcdef
-A CNI-DN-0123456789abcdef -p tcp -m tcp --dport 18080 -j RETURN
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
-A POSTROUTING -o not-there -j MASQUERADE
COMMIT
`;
/** The kubelet's rule, which kube-proxy has, too. */
const FIREWALL = `*filter
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
COMMIT
`;
const TABLE = `table inet admin {
  chain input {
    type filter hook input priority 5; policy accept;
    tcp dport 2222 accept
  }
}
`;

async function inside(
  sandbox: Sandbox,
  argv: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  const [program = 'sh', ...args] = insideSandbox(sandbox, argv);
  const { code, stdout, stderr } = await run(program, args, options);
  if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr}`);
  return stdout;
}

export async function addForeignRules(sandbox: Sandbox, variant: Variant): Promise<void> {
  for (const tool of ['iptables', 'ip6tables']) {
    await inside(sandbox, [`${tool}-${variant}-restore`, '-w', '30', '--noflush'], {
      stdin: RULES,
    });
  }
  const restore = [`iptables-${variant}-restore`, '-w', '30', '--noflush'];
  await inside(sandbox, restore, { stdin: FIREWALL });
  await inside(sandbox, ['nft', '-f', '-'], { stdin: TABLE });
}

/** Everything that goes with these rules, so that the next test finds none. */
export async function removeAllRules(sandbox: Sandbox): Promise<void> {
  await inside(sandbox, ['nft', 'flush', 'ruleset']);
  for (const tool of ['iptables-legacy', 'ip6tables-legacy']) {
    for (const table of ['mangle', 'filter', 'nat']) {
      await inside(sandbox, [tool, '-w', '30', '-t', table, '-F']);
      await inside(sandbox, [tool, '-w', '30', '-t', table, '-X']);
    }
  }
}

/** The connections that were translated are forgotten, as if they had ended long ago. */
export const forgetConnections = (sandbox: Sandbox): Promise<string> =>
  inside(sandbox, ['conntrack', '-F']);

/**
 * All chains and rules of the namespace, without counters. Built-in chains count only with their policy if it is not
 * the default: iptables adds empty ones, and never removes them.
 */
export async function rulesOf(sandbox: Sandbox): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const tool of ['iptables-nft', 'ip6tables-nft', 'iptables-legacy', 'ip6tables-legacy']) {
    let table = '';
    for (const line of (await inside(sandbox, [`${tool}-save`])).split('\n')) {
      if (line.startsWith('*')) table = line;
      const isDeclared = line.startsWith(':') && !/^:\S+ ACCEPT /.test(line);
      if (isDeclared) lines.push(`${tool} ${table} ${line.replace(/ \[.*/, '')}`);
      if (line.startsWith('-A')) lines.push(`${tool} ${table} ${line}`);
    }
  }
  const tables = (await inside(sandbox, ['nft', 'list', 'tables'])).split('\n');
  for (const table of tables.filter((line) => /admin|kube-proxy/.test(line))) {
    lines.push(await inside(sandbox, ['nft', 'list', ...table.split(' ')]));
  }
  return lines;
}
