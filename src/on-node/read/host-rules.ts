// SPDX-License-Identifier: Apache-2.0
// Reads the rules of the node with its own programs. A node without rules costs no program: the kernel is asked first.
import { FAMILIES } from '../../model/types.ts';
import { run } from '../../sys/exec.ts';
import { hasLegacyTable, rulesGeneration } from '../../sys/netfilter.ts';
import type { HostRules } from '../netfilter/obstacle.ts';

const TABLES = ['filter', 'mangle', 'raw'] as const;
const NOTHING: HostRules = { saved: [], nft: undefined };
/** Of 10,000 Services that a proxy has written. */
const LONG_MS = 60_000;

/** What has changed if rules have; undefined: it cannot be told without reading them. */
export const rulesMark = (): string | undefined => {
  const legacy = FAMILIES.some((family) => TABLES.some((table) => hasLegacyTable(family, table)));
  return legacy ? undefined : String(rulesGeneration());
};

export async function readHostRules(): Promise<HostRules> {
  const generation = rulesGeneration();
  const hasNft = generation !== undefined && generation > 1;
  const [saved, nft] = await Promise.all([
    Promise.all([...(hasNft ? savedBy('nft') : []), ...savedBy('legacy')]),
    hasNft ? listed() : NOTHING.nft,
  ]);
  return { saved: saved.flat(), nft };
}

function savedBy(variant: 'nft' | 'legacy'): readonly Promise<HostRules['saved']>[] {
  return FAMILIES.filter(
    (family) => variant === 'nft' || TABLES.some((table) => hasLegacyTable(family, table)),
  ).map(async (family) => {
    const program = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${variant}`;
    const { code, stdout } = await run(`${program}-save`, [], { timeoutMs: LONG_MS });
    return code === 0 ? [{ program, text: stdout }] : [];
  });
}

/** undefined: there is no `nft` on the node, or it does not know what the kernel has. */
async function listed(): Promise<unknown> {
  const { code, stdout } = await run('nft', ['-j', 'list', 'ruleset'], { timeoutMs: LONG_MS });
  if (code !== 0) return undefined;
  try {
    return JSON.parse(stdout) as unknown;
  } catch {
    return undefined;
  }
}
