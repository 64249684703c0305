// SPDX-License-Identifier: Apache-2.0
// The nftables engine of an earlier agent, when this agent serves with another one. Connections that its rules have
// translated go on as long as the kernel tracks connections and has a chain of type nat: where nobody else has one, that
// much of the table stays until they have ended.
import { lockOrShare, type RulesHolder } from '../../engines/iptables/kernel/instance-lock.ts';
import { neededBy } from '../../engines/kube-proxy/needed.ts';
import { NFT_FAMILY, parseNft, reducedTable } from '../../engines/kube-proxy/nftables.ts';
import { translatedConnections } from '../../engines/kube-proxy/tracking.ts';
import {
  familiesWithTable,
  hasOffload,
  isTableServing,
} from '../../engines/nftables/kernel/cleanup.ts';
import { nftOf } from '../../engines/nftables/kernel/nft.ts';
import { removal } from '../../engines/nftables/offload/script.ts';
import { TABLE } from '../../engines/nftables/rules/names.ts';
import { parseTable } from '../../engines/nftables/rules/parse.ts';
import { heldFrontends } from '../../engines/nftables/state/view.ts';
import type { Predecessor } from '../../engines/predecessor.ts';
import { FairleadError } from '../../errors.ts';
import type { Family } from '../../model/types.ts';
import { run } from '../../sys/exec.ts';
import { readRules, trackedConnections } from './read.ts';

export function nftablesPredecessor(holder: RulesHolder): Predecessor {
  const remove = async (): Promise<void> => {
    const lock = await lockOrShare(holder);
    try {
      await removeUnneeded();
    } finally {
      lock.close();
    }
  };
  return {
    engine: 'nftables',
    look: async () => {
      const families = familiesWithTable();
      if (families.length === 0) return { isServing: false, isLeft: hasOffload(), connections: 0 };
      const isNeeded = (await neededFamilies()).size > 0;
      return {
        isServing: families.some(isTableServing),
        isLeft: true,
        connections: isNeeded ? undefined : 0,
      };
    },
    held: async () => {
      const serving = familiesWithTable().filter(isTableServing);
      const tables = serving.map(async (family) =>
        heldFrontends(family, parseTable(await nftOf(family).list())),
      );
      return (await Promise.all(tables)).flat();
    },
    stopServing: remove,
    remove,
  };
}

/** Why something has to stay, for each family in which something has to. */
async function neededFamilies(): Promise<ReadonlyMap<Family, string>> {
  const { code, stdout, stderr } = await run('nft', ['--json', '--terse', 'list', 'ruleset']);
  if (code !== 0) throw new FairleadError('RESTORE_FAILED', `nft: ${stderr.trim()}`);
  const table = trackedConnections();
  const translated = table === undefined ? undefined : translatedConnections(table);
  const rules = await readRules(run);
  return neededBy(rules.value, parseNft(stdout, TABLE), translated).nft;
}

async function removeUnneeded(): Promise<void> {
  const families = familiesWithTable();
  const offload = hasOffload() ? removal() : [];
  if (families.length + offload.length === 0) return;
  const needed = await neededFamilies();
  const lines = families.flatMap((family) => [
    `delete table ${NFT_FAMILY[family]} ${TABLE}`,
    ...(needed.has(family) ? reducedTable(NFT_FAMILY[family], TABLE) : []),
  ]);
  lines.push(...offload);
  const result = await run('nft', ['-f', '-'], { stdin: `${lines.join('\n')}\n` });
  if (result.code !== 0) throw new FairleadError('RESTORE_FAILED', `nft: ${result.stderr.trim()}`);
}
