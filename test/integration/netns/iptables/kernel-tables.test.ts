// SPDX-License-Identifier: Apache-2.0
// What is asked of the kernel at each start, before any program that lists rules is run.
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';

const NETFILTER = fileURLToPath(new URL('../../../../build/js/sys/netfilter.js', import.meta.url));
const LOOK = `import('${NETFILTER}').then(({ mayHaveChain, mayHaveTable, hasLegacyTable }) => {
  const found = {};
  for (const family of ['IPv4', 'IPv6']) {
    found[family] = {
      chain: mayHaveChain(family, 'nat', 'KUBE-SERVICES'),
      table: mayHaveTable(family, 'kube-proxy'),
      legacy: hasLegacyTable(family, 'nat'),
    };
  }
  console.log(JSON.stringify(found));
})`;

/** After these commands, in a network namespace of their own. */
async function looked(...commands: readonly string[]): Promise<unknown> {
  const script = [...commands, `exec ${process.execPath} -e "$0"`].join(' && ');
  const { stdout, stderr, code } = await run('unshare', ['--net', 'sh', '-c', script, LOOK]);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

const NONE = { chain: false, table: false, legacy: false };

test.each([
  { commands: ['true'], IPv4: NONE, IPv6: NONE },
  {
    commands: ['iptables-nft -t nat -N KUBE-SERVICES'],
    IPv4: { ...NONE, chain: true },
    IPv6: NONE,
  },
  {
    commands: ['ip6tables-nft -t nat -N KUBE-SERVICES', 'iptables-nft -t nat -N KUBE-OTHER'],
    IPv4: NONE,
    IPv6: { ...NONE, chain: true },
  },
  { commands: ['nft add table ip kube-proxy'], IPv4: { ...NONE, table: true }, IPv6: NONE },
  {
    commands: ['nft add table ip6 kube-proxy', 'nft add table inet kube-proxy'],
    IPv4: NONE,
    IPv6: { ...NONE, table: true },
  },
  {
    commands: ['ip6tables-legacy -w 30 -t nat -N KUBE-SERVICES'],
    IPv4: NONE,
    IPv6: { ...NONE, legacy: true },
  },
])('$commands', async ({ commands, IPv4, IPv6 }) => {
  expect(await looked(...commands)).toEqual({ IPv4, IPv6 });
});

test('without the rights to ask there may be some', async () => {
  const drop = `exec setpriv --bounding-set -net_admin --inh-caps -net_admin ${process.execPath} -e "$0"`;
  const { stdout } = await run('unshare', ['--net', 'sh', '-c', drop, LOOK]);
  expect(JSON.parse(stdout)).toMatchObject({ IPv4: { chain: true, table: true } });
});
