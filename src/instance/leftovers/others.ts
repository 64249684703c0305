// SPDX-License-Identifier: Apache-2.0
// Reads what fairlead serves, and what the rules of others serve, from the kernel. Changes nothing.
import { readFileSync } from 'node:fs';
import { programName, type RunProgram } from '../../engines/iptables/kernel/tools.ts';
import type { Variant } from '../../engines/iptables/kernel/variant.ts';
import { heldTables } from '../../engines/iptables/state/diff/text.ts';
import { snapshotOf } from '../../engines/iptables/state/inspect/view.ts';
import { ipvsFrontends, parseVirtualServers } from '../../engines/kube-proxy/ipvs.ts';
import { isReached, ownerOf } from '../../engines/kube-proxy/own-rules.ts';
import {
  type OtherRules,
  type OwnFrontend,
  ownFrontends,
} from '../../engines/kube-proxy/serving/judge.ts';
import { NFT_TABLE, nftFrontends } from '../../engines/kube-proxy/serving/nftables.ts';
import { FairleadError, reasonOf } from '../../errors.ts';
import { FAMILIES, type Family } from '../../model/types.ts';
import { run } from '../../sys/exec.ts';
import { nftMap } from '../../sys/netlink/nft/map-elements.ts';
import { nftRules } from '../../sys/netlink/nft/rules.ts';
import { programmedBelow } from '../dataplanes.ts';
import { isFailure, unreadText } from './read.ts';

export interface ServedHere {
  /** By fairlead's iptables engine. */
  readonly own: readonly OwnFrontend[];
  readonly others: readonly OtherRules[];
  /** Tools that could not be asked, and why: what they would have listed may be fairlead's or another's. */
  readonly unread: readonly string[];
}

/** By fairlead's programs; undefined: another version of fairlead has pinned them. */
export function ownPrograms(bpfRoot: string): readonly OwnFrontend[] | undefined {
  try {
    return ownFrontends(programmedBelow(bpfRoot));
  } catch (error) {
    if (error instanceof FairleadError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

export async function readServed(): Promise<ServedHere> {
  const tables = await readTables(run);
  const ipvs = parseVirtualServers(textOf('/proc/net/ip_vs'));
  return {
    own: tables.flatMap(({ own }) => own),
    unread: tables.flatMap(({ unread }) => unread),
    others: [
      ...tables.flatMap(({ others }) => others),
      ...FAMILIES.map((family) => ({ where: 'nftables', family, frontends: nftables(family) })),
      ...FAMILIES.map((family) => ({
        ...{ where: 'ipvs', family, frontends: ipvsFrontends(family, ipvs) },
      })),
    ],
  };
}

/** Listing the rules of ten thousand Services takes seconds. */
const LIST_TIMEOUT_MS = 60_000;

/** Of both kinds of iptables: the other proxy may use another one. A node without them has the plain names. */
export async function readTables(runProgram: RunProgram): Promise<readonly ServedHere[]> {
  const named = await readVariants(['nft', 'legacy'], runProgram);
  return named.length > 0 ? named : readVariants([undefined], runProgram);
}

/** Of those that are installed. */
async function readVariants(
  variants: readonly (Variant | undefined)[],
  runProgram: RunProgram,
): Promise<readonly ServedHere[]> {
  const found: ServedHere[] = [];
  for (const variant of variants) {
    for (const family of FAMILIES) {
      const program = programName(family, variant, 'save');
      const result = await runProgram(program, [], { timeoutMs: LIST_TIMEOUT_MS });
      if (result.code === 0) found.push(servedIn(result.stdout, { family, variant, program }));
      else found.push(...[unreadText(program, result)].filter(isFailure).map(unreadBy));
    }
  }
  return found;
}

const NONE: ServedHere = { own: [], others: [], unread: [] };
const unreadBy = (reason: string): ServedHere => ({ ...NONE, unread: [reason] });

interface Saved {
  readonly family: Family;
  readonly variant: Variant | undefined;
  readonly program: string;
}

function servedIn(saved: string, { family, variant, program }: Saved): ServedHere {
  try {
    return servedBy(family, variant === undefined ? 'iptables' : `iptables-${variant}`, saved);
  } catch (error) {
    return unreadBy(`${program}: ${reasonOf(error)}`);
  }
}

function servedBy(family: Family, where: string, saved: string): ServedHere {
  const held = heldTables(saved);
  const owner = ownerOf(held);
  if (owner === 'fairlead, retired') return NONE;
  const served = ownFrontends(snapshotOf(family, saved));
  if (owner === 'fairlead') return { ...NONE, own: served };
  if (!isReached(held)) return NONE;
  const frontends = new Map(served.map(({ text, known }) => [text, [...known]]));
  return { ...NONE, others: [{ where, family, frontends }] };
}

const nftables = (family: Family): OtherRules['frontends'] =>
  nftFrontends(family, {
    rules: nftRules(family, NFT_TABLE),
    elements: (map) => nftMap(family, NFT_TABLE, map),
  });

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
