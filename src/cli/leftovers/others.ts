// SPDX-License-Identifier: Apache-2.0
// Reads what fairlead serves, and what the rules of others serve, from the kernel. Changes nothing.
import { readFileSync } from 'node:fs';
import { heldTables } from '../../dataplane/iptables/diff/text.ts';
import { snapshotOf } from '../../dataplane/iptables/inspect/view.ts';
import { programName, type RunProgram } from '../../dataplane/iptables/restore/tools.ts';
import type { Variant } from '../../dataplane/iptables/restore/variant.ts';
import { ownerOf } from '../../dataplane/leftovers/own-rules.ts';
import { ipvsFrontends } from '../../dataplane/others/ipvs.ts';
import { type OtherRules, type OwnFrontend, ownFrontends } from '../../dataplane/others/judge.ts';
import { NFT_TABLE, nftFrontends } from '../../dataplane/others/nftables.ts';
import { FairleadError } from '../../errors.ts';
import { FAMILIES, type Family } from '../../model/types.ts';
import { run } from '../../sys/exec.ts';
import { nftLookups, nftMap } from '../../sys/netlink/nft-table.ts';
import { programmedBelow } from '../dataplanes.ts';

export interface ServedHere {
  /** By fairlead's iptables engine. */
  readonly own: readonly OwnFrontend[];
  readonly others: readonly OtherRules[];
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

export async function readServed(runProgram: RunProgram = run): Promise<ServedHere> {
  const tables = await readTables(runProgram);
  const ipvs = textOf('/proc/net/ip_vs');
  return {
    own: tables.flatMap(({ own }) => own),
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
async function readTables(runProgram: RunProgram): Promise<readonly ServedHere[]> {
  const named = await readVariants(['nft', 'legacy'], runProgram);
  return named.length > 0 ? named : readVariants([undefined], runProgram);
}

async function readVariants(
  variants: readonly (Variant | undefined)[],
  runProgram: RunProgram,
): Promise<readonly ServedHere[]> {
  const found: ServedHere[] = [];
  for (const variant of variants) {
    for (const family of FAMILIES) {
      const program = programName(family, variant, 'save');
      const { code, stdout } = await runProgram(program, [], { timeoutMs: LIST_TIMEOUT_MS });
      const where = variant === undefined ? 'iptables' : `iptables-${variant}`;
      if (code === 0) found.push(servedBy(family, where, stdout));
    }
  }
  return found;
}

function servedBy(family: Family, where: string, saved: string): ServedHere {
  const owner = ownerOf(heldTables(saved));
  if (owner === 'fairlead, retired') return { own: [], others: [] };
  const served = ownFrontends(snapshotOf(family, saved));
  if (owner === 'fairlead') return { own: served, others: [] };
  const frontends = new Map(served.map(({ text, known }) => [text, [...known]]));
  return { own: [], others: [{ where, family, frontends }] };
}

const nftables = (family: Family): OtherRules['frontends'] =>
  nftFrontends(family, {
    lookups: nftLookups(family, NFT_TABLE),
    elements: (map) => nftMap(family, NFT_TABLE, map),
  });

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
