// SPDX-License-Identifier: Apache-2.0
// Gives transactions to nft in a network namespace of their own, and reads the table after each.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NFT_FAMILY, TABLE } from '../../../src/engines/nftables/rules/names.ts';
import { parseTable } from '../../../src/engines/nftables/rules/parse.ts';
import type { HeldTable } from '../../../src/engines/nftables/rules/types.ts';
import type { Family } from '../../../src/model/types.ts';
import { run } from '../../../src/sys/exec.ts';

export interface ReadBack {
  readonly complaint: string;
  readonly held: HeldTable;
}

const END = '=== end of a transaction';

/** Of several sequences, each of which begins without a table. */
export async function readBack(
  family: Family,
  sequences: readonly (readonly string[])[],
): Promise<readonly (readonly ReadBack[])[]> {
  const folder = mkdtempSync(join(tmpdir(), 'nft-read-back-'));
  const table = `${NFT_FAMILY[family]} ${TABLE}`;
  try {
    const commands = sequences.flatMap((scripts, at) => [
      ...scripts.flatMap((script, index) => {
        const path = join(folder, `${at}-${index}.nft`);
        writeFileSync(path, script);
        return [
          `nft -f ${path} 2>&1`,
          `echo '${END}'`,
          `nft -y list table ${table}`,
          `echo '${END}'`,
        ];
      }),
      `nft delete table ${table}`,
    ]);
    const path = join(folder, 'all.sh');
    writeFileSync(path, commands.join('\n'));
    const { stdout } = await run('unshare', ['--net', 'sh', path], { timeoutMs: 300_000 });
    const parts = stdout.split(`${END}\n`);
    let next = 0;
    return sequences.map((scripts) =>
      scripts.map(() => {
        const [complaint = '', printed = ''] = parts.slice(next, next + 2);
        next += 2;
        return { complaint, held: parseTable(printed) };
      }),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}
