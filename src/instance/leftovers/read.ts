// SPDX-License-Identifier: Apache-2.0
// Runs the tools that list rules, tables, sets and virtual servers of this network namespace. Changes nothing.
import { existsSync, readFileSync } from 'node:fs';
import { programName, type RunProgram } from '../../engines/iptables/kernel/tools.ts';
import type { Variant } from '../../engines/iptables/kernel/variant.ts';
import { heldTables } from '../../engines/iptables/state/diff/text.ts';
import {
  IPVS_DEVICE,
  type IpvsState,
  parseAddresses,
  parseSets,
  parseVirtualServers,
} from '../../engines/kube-proxy/ipvs.ts';
import type { FoundRules } from '../../engines/kube-proxy/needed.ts';
import { type NftState, parseNft } from '../../engines/kube-proxy/nftables.ts';
import { ruleLeftovers } from '../../engines/kube-proxy/rules.ts';
import { FAMILIES } from '../../model/types.ts';
import type { RunResult } from '../../sys/exec.ts';

export interface Read<T> {
  readonly value: T;
  /** Tools that could not be asked, and why. */
  readonly unread: readonly string[];
}

export interface VariantRules extends FoundRules {
  readonly variant: Variant | undefined;
  /** As the tool printed them. */
  readonly saved: string;
}

/** Whose rules are looked for. */
type Owned = 'kube-proxy' | 'fairlead';

const NO_NFT: NftState = { tables: [], othersNat: new Set(), othersTrack: new Set() };
const LIST_TIMEOUT_MS = 60_000;

/** Of both kinds of iptables, whichever the node uses: kube-proxy may have used the other one. */
export async function readRules(
  runProgram: RunProgram,
  of: Owned = 'kube-proxy',
): Promise<Read<readonly VariantRules[]>> {
  const named = await readVariants(['nft', 'legacy'], { runProgram, of });
  // A node usually has one of them. The plain name is one of those that fail, too.
  if (named.value.length > 0 || named.unread.some(isFailure))
    return { ...named, unread: named.unread.filter(isFailure) };
  const plain = await readVariants([undefined], { runProgram, of });
  return plain.value.length > 0 ? plain : named;
}

async function readVariants(
  variants: readonly (Variant | undefined)[],
  { runProgram, of }: { readonly runProgram: RunProgram; readonly of: Owned },
): Promise<Read<readonly VariantRules[]>> {
  const value: VariantRules[] = [];
  const unread: string[] = [];
  for (const variant of variants) {
    for (const family of FAMILIES) {
      const program = programName(family, variant, 'save');
      const result = await runProgram(program, [], { timeoutMs: LIST_TIMEOUT_MS });
      if (result.code !== 0) {
        unread.push(unreadText(program, result));
        continue;
      }
      const held = heldTables(result.stdout);
      const where = `${variant === undefined ? 'iptables' : `iptables-${variant}`} ${family}`;
      const found = ruleLeftovers(held, of);
      value.push({ family, variant, where, held, found, saved: result.stdout });
    }
  }
  return { value, unread };
}

export const isFailure = (text: string): boolean => !text.endsWith(NOT_INSTALLED);
export const ENDLESS = ' does not end: look with `ps` whether another iptables hangs, too';
const NOT_INSTALLED = ' is not installed';

export const unreadText = (program: string, { code, stderr }: RunResult): string =>
  code === 127
    ? `${program}${NOT_INSTALLED}`
    : code === 124
      ? `${program}${ENDLESS}`
      : `${program}: ${stderr.trim().split('\n').at(-1) || `exit code ${code}`}`;

/** @param isAsked rules of iptables were found: what may go depends on what else there is */
export async function readNft(runProgram: RunProgram, isAsked: boolean): Promise<Read<NftState>> {
  const tables = await runProgram('nft', ['list', 'tables']);
  if (tables.code !== 0) return { value: NO_NFT, unread: [unreadText('nft', tables)] };
  const hasTable = /^table ip6? kube-proxy$/m.test(tables.stdout);
  if (!isAsked && !hasTable) return { value: NO_NFT, unread: [] };
  const args = ['--json', '--terse', 'list', 'ruleset'];
  const listed = await runProgram('nft', args, { timeoutMs: LIST_TIMEOUT_MS });
  if (listed.code !== 0) return { value: NO_NFT, unread: [unreadText('nft', listed)] };
  return { value: parseNft(listed.stdout), unread: [] };
}

export async function readIpvs(runProgram: RunProgram): Promise<Read<IpvsState>> {
  const unread: string[] = [];
  const read = async (program: string, args: readonly string[]): Promise<string> => {
    const result = await runProgram(program, args);
    if (result.code === 0) return result.stdout;
    unread.push(unreadText(program, result));
    return '';
  };
  const hasDevice = (textOf('/proc/net/dev') ?? '').includes(`${IPVS_DEVICE}:`);
  const ofDevice = ['-json', 'address', 'show', 'dev', IPVS_DEVICE];
  const addresses = hasDevice ? await read('ip', ofDevice) : '';
  // Without the module there are no sets, and the tool would load it.
  const sets = existsSync('/sys/module/ip_set') ? await read('ipset', ['save']) : '';
  const servers = parseVirtualServers(textOf('/proc/net/ip_vs') ?? '');
  const isUsed = hasDevice || servers.length > 0;
  return {
    value: {
      servers,
      sets: parseSets(sets),
      addresses: hasDevice ? parseAddresses(addresses === '' ? '[]' : addresses) : undefined,
    },
    unread: isUsed ? unread : unread.filter(isFailure),
  };
}

/** undefined: this kernel does not list them. */
export const trackedConnections = (): string | undefined => textOf('/proc/net/nf_conntrack');

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
