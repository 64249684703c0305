// SPDX-License-Identifier: Apache-2.0
// What iptables-save prints, and what iptables-restore reads, by chain.

export type SavedChains = ReadonlyMap<string, readonly string[]>;

/** `nat KUBE-SERVICES` -> its rules, of all chains that are declared. */
export function chainsOf(text: string): SavedChains {
  const chains = new Map<string, string[]>();
  let table = '';
  for (const line of text.split('\n')) {
    const [, declared, appended] = /^(?::(\S+) |-A (\S+))/.exec(line) ?? [];
    if (line.startsWith('*')) table = line.slice(1);
    if (declared !== undefined) chains.set(`${table} ${declared}`, []);
    if (appended === undefined) continue;
    const name = `${table} ${appended}`;
    const rules = chains.get(name) ?? [];
    chains.set(name, [...rules, line]);
  }
  return chains;
}
