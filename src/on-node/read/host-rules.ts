// SPDX-License-Identifier: Apache-2.0
// Reads the rules of the node with its own programs. A node without rules costs no program: the kernel is asked first.
import { FAMILIES, type Family } from '../../model/types.ts';
import { run } from '../../sys/exec.ts';
import { hasLegacyTable, rulesGeneration } from '../../sys/netfilter.ts';
import { nftBaseChains } from '../../sys/netlink/nft/base-chains.ts';
import { type HostRules, savedFamilies } from '../netfilter/obstacle.ts';
import { unreadChains, unreadTables } from '../netfilter/unread.ts';

const TABLES = ['filter', 'mangle', 'raw'] as const;
/** Of 10,000 Services that a proxy has written. */
const LONG_MS = 60_000;

/** What has changed if rules have; undefined: it cannot be told without reading them. */
export const rulesMark = (): string | undefined => {
  const legacy = FAMILIES.some((family) => TABLES.some((table) => hasLegacyTable(family, table)));
  return legacy ? undefined : String(rulesGeneration());
};

/** What a program prints; undefined: it is missing or fails. */
type Printed = string | undefined;

export async function readHostRules(): Promise<HostRules> {
  const generation = rulesGeneration();
  const hasNft = generation !== undefined && generation > 1;
  const [ofNft, ofLegacy, nft] = await Promise.all([
    hasNft ? Promise.all(FAMILIES.map((family) => savedBy(programOf(family, 'nft')))) : [],
    Promise.all(FAMILIES.map(legacyOf)),
    hasNft ? listed() : undefined,
  ]);
  const saved = [...ofNft, ...ofLegacy.map((one) => one.saved)].flat();
  const isUnread = hasNft && nft === undefined;
  const unread = [
    ...(isUnread ? unreadChains(nftBaseChains(), savedFamilies(saved)) : []),
    ...ofLegacy.flatMap((one) => one.unread),
  ];
  return { saved, nft, unread };
}

const programOf = (family: Family, variant: 'nft' | 'legacy'): string =>
  `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${variant}`;

async function savedBy(program: string): Promise<HostRules['saved']> {
  const text = await printed(`${program}-save`);
  return text === undefined ? [] : [{ program, text }];
}

async function legacyOf(family: Family): Promise<Required<Pick<HostRules, 'saved' | 'unread'>>> {
  const tables = TABLES.filter((table) => hasLegacyTable(family, table));
  if (tables.length === 0) return { saved: [], unread: [] };
  const program = programOf(family, 'legacy');
  const saved = await savedBy(program);
  return { saved, unread: saved.length === 0 ? unreadTables(`${program}-save`, tables) : [] };
}

async function printed(program: string, ...args: readonly string[]): Promise<Printed> {
  const { code, stdout } = await run(program, args, { timeoutMs: LONG_MS });
  return code === 0 ? stdout : undefined;
}

/** undefined: there is no `nft` on the node, or it does not know what the kernel has. */
async function listed(): Promise<unknown> {
  const text = await printed('nft', '-j', 'list', 'ruleset');
  try {
    return text === undefined ? undefined : (JSON.parse(text) as unknown);
  } catch {
    return undefined;
  }
}
