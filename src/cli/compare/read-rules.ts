// SPDX-License-Identifier: Apache-2.0
// The rules that are in the kernel, or in files, as sides. Reads only.
import { readFileSync } from 'node:fs';
import { readIptables } from '../../compare/rules/iptables.ts';
import { merged } from '../../compare/rules/merged.ts';
import { readNft } from '../../compare/rules/nft/program.ts';
import type { Program } from '../../compare/rules/types.ts';
import type { SideKind } from '../../compare/sides/side.ts';
import { FairleadError } from '../../errors.ts';
import type { Family } from '../../model/types.ts';
import { type RunOptions, run } from '../../sys/exec.ts';

/** Rules of one proxy in one family. */
export interface FoundRules {
  readonly kind: SideKind;
  /** `iptables-nft` */
  readonly name: string;
  readonly family: Family;
  readonly program: Program;
}

const LIST: RunOptions = { timeoutMs: 60_000 };
const TOOLS: Readonly<Record<Family, string>> = { IPv4: 'iptables', IPv6: 'ip6tables' };
const NFT: Readonly<Record<Family, string>> = { IPv4: 'ip', IPv6: 'ip6' };
/** A chain that only fairlead's rules have. */
const OF_FAIRLEAD = /^:KUBE-CLUSTER-IPS /m;
const OF_A_PROXY = /^:KUBE-SERVICES /m;

type Variant = 'nft' | 'legacy';
const VARIANTS: readonly Variant[] = ['nft', 'legacy'];
type Saved = readonly (readonly [variant: Variant, text: string])[];

/** Of all proxies that have rules on this node; names are unique in a family. Rules of no proxy count for each of them. */
export async function rulesOnNode(families: readonly Family[]): Promise<readonly FoundRules[]> {
  const { code, stdout } = await run('nft', ['-y', 'list', 'ruleset'], LIST);
  const listed = code === 0 ? stdout : '';
  checkWhole(listed);
  const found: FoundRules[] = [];
  for (const family of families) {
    const saved = await savedRules(family);
    const beside = readNft(family, listed, { isProxys: () => false, isLeftOut: isOfAProxy });
    found.push(...ofIptables(family, saved, beside));
    const foreign = saved.map(([variant, text]) => foreignOf(family, variant, text));
    for (const one of fromNftables(family, listed))
      found.push({ ...one, program: merged(one.program, ...foreign) });
  }
  return found;
}

const isOfAProxy = (table: string): boolean => /^ip6? (?:kube-proxy|fairlead)$/.test(table);

async function savedRules(family: Family): Promise<Saved> {
  const found: (readonly [Variant, string])[] = [];
  for (const variant of VARIANTS) {
    const { code, stdout } = await run(`${TOOLS[family]}-${variant}-save`, [], LIST);
    if (code === 0) found.push([variant, stdout]);
  }
  return found;
}

function ofIptables(family: Family, saved: Saved, beside: Program): readonly FoundRules[] {
  return saved.flatMap(([variant, text]): readonly FoundRules[] => {
    if (!OF_A_PROXY.test(text)) return [];
    const owner = OF_FAIRLEAD.test(text) ? 'fairlead-iptables' : 'iptables';
    const found = fromIptables(`${owner}-${variant}`, family, text);
    const others = saved.filter(([other]) => other !== variant);
    const foreign = others.map(([other, rules]) => foreignOf(family, other, rules));
    return [{ ...found, program: merged(found.program, ...foreign, beside) }];
  });
}

/** Throws BAD_OPTION. */
function foreignOf(family: Family, variant: Variant, saved: string): Program {
  const read = readIptables(family, saved, { prefix: `${variant}:`, isForeignOnly: true });
  if (!read.ok)
    throw new FairleadError('BAD_OPTION', `the rules of iptables-${variant}, ${read.reason}`);
  return read.value;
}

/** Throws BAD_OPTION if it cannot be read. */
function fromIptables(name: string, family: Family, saved: string): FoundRules {
  const read = readIptables(family, saved);
  if (!read.ok) throw new FairleadError('BAD_OPTION', `the rules of ${name}, ${read.reason}`);
  return { kind: 'iptables', name, family, program: read.value };
}

/** One side for each proxy's table; to it, the tables of no proxy count as well. */
function fromNftables(family: Family, printed: string): FoundRules[] {
  checkWhole(printed);
  return [
    ['kube-proxy', 'nftables'],
    ['fairlead', 'fairlead-nftables'],
  ].flatMap(([table = '', name = '']) => {
    const own = `${NFT[family]} ${table}`;
    if (!printed.includes(`table ${own} {`)) return [];
    const program = readNft(family, printed, {
      isProxys: (one) => one === own,
      isLeftOut: (one) => one !== own && isOfAProxy(one),
    });
    return [{ kind: 'nftables', name, family, program } as const];
  });
}

/** What `iptables-save`, `ip6tables-save` or `nft -y list ruleset` has printed. Throws BAD_OPTION. */
export function rulesInFile(path: string, families: readonly Family[]): readonly FoundRules[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new FairleadError('BAD_OPTION', `${path} cannot be read: ${reason}`);
  }
  if (/^table \S+ \S+ \{/m.test(text)) {
    const found = families.flatMap((family) => fromNftables(family, text));
    if (found.length > 0) return found.map((one) => ({ ...one, name: path }));
  } else if (OF_A_PROXY.test(text)) {
    const family = /^# Generated by ip6tables-save/m.test(text) ? 'IPv6' : 'IPv4';
    return [fromIptables(path, family, text)];
  }
  throw new FairleadError(
    'BAD_OPTION',
    `${path} has no rules of a proxy: save them with \`iptables-save\`, \`ip6tables-save\` or \`nft -y list ruleset\``,
  );
}

/** Throws BAD_OPTION for what was cut off, or printed with other options than `-y`. */
function checkWhole(printed: string): void {
  const isWhole = /\n\}\s*$/.test(printed) && !/\r| # handle \d+$/m.test(printed);
  if (printed.trim() === '' || isWhole) return;
  throw new FairleadError(
    'BAD_OPTION',
    'the rules of nftables are no whole output of `nft -y list ruleset`: save them again, without other options',
  );
}
