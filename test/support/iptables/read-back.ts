// SPDX-License-Identifier: Apache-2.0
// Rules through the real iptables: what iptables-restore says of them, and what iptables-save then prints. All in one
// network namespace, which ends with the shell in it.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Family } from '../../../src/model/types.ts';
import { run } from '../../../src/sys/exec.ts';

export type Variant = 'nft' | 'legacy';
export const VARIANTS: readonly Variant[] = ['nft', 'legacy'];

/** Of both families; a kernel may lack the tables of iptables-legacy. */
export async function isAvailable(variant: Variant): Promise<boolean> {
  const tools = [`iptables-${variant}`, `ip6tables-${variant}`];
  const argv = tools.map((tool) => ['--net', tool, '--table', 'nat', '--list-rules']);
  const results = await Promise.all(argv.map((args) => run('unshare', args)));
  return results.every(({ code }) => code === 0);
}

export interface ReadBack {
  /** What `iptables-restore --test` and then `iptables-restore` printed; '' if they had nothing to say. */
  readonly complaint: string;
  readonly saved: string;
}

/** In the order of the texts; each replaces the one before it. */
export async function readBack(
  variant: Variant,
  family: Family,
  texts: readonly string[],
): Promise<readonly ReadBack[]> {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-rules-'));
  try {
    for (const [index, text] of texts.entries()) writeFileSync(join(folder, `${index}.in`), text);
    const tool = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${variant}`;
    // The lock of iptables-legacy is a file: one of this namespace's own keeps it apart from the node's.
    const script = `export XTABLES_LOCKFILE=${folder}/lock; cd ${folder} || exit
for i in $(seq 0 ${texts.length - 1}); do
  { ${tool}-restore --test <$i.in && ${tool}-restore <$i.in; } >$i.said 2>&1 || echo "failed: $?" >>$i.said
  ${tool}-save >$i.out 2>>$i.said
done`;
    const { code, stderr } = await run('unshare', ['--net', 'sh', '-c', script], {
      timeoutMs: 280_000,
    });
    if (code !== 0) throw new Error(`unshare: code ${code}: ${stderr}`);
    const read = (name: string): string => readFileSync(join(folder, name), 'utf8');
    return texts.map((_, index) => ({
      complaint: read(`${index}.said`),
      saved: read(`${index}.out`),
    }));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
