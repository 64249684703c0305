// SPDX-License-Identifier: Apache-2.0
// Finds out which iptables to run on this node, and for which families.
import { FairleadError } from '../../../errors.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import { run } from '../../../sys/exec.ts';
import { missingText } from './failure.ts';
import { programName, type RunProgram, type Tools, toolsOf } from './tools.ts';
import {
  type Choice,
  chooseVariant,
  type Reading,
  readingOf,
  type Unusable,
  type Variant,
} from './variant.ts';

export interface FoundTools extends Choice {
  /** Without a family that the kernel or the node does not have. */
  readonly families: ReadonlyMap<Family, Tools>;
  readonly missing: readonly { readonly family: Family; readonly reason: string }[];
}

/** Throws NO_IPTABLES. */
export async function findTools(runProgram: RunProgram = run): Promise<FoundTools> {
  const nft = await readingBy('nft', runProgram);
  const legacy = await readingBy('legacy', runProgram, { proves: 'reason' in nft });
  const choice = chooseVariant({ nft, legacy });
  if (choice === undefined) {
    const reasons = [nft, legacy].flatMap((one) => ('reason' in one ? [one.reason] : []));
    throw new FairleadError(
      'NO_IPTABLES',
      `no iptables works on this node: ${[...new Set(reasons)].join('; ')}`,
    );
  }
  const name = (await has(choice.variant, runProgram)) ? choice.variant : undefined;
  return { ...choice, ...(await familiesOf(name, runProgram)) };
}

async function familiesOf(
  variant: Variant | undefined,
  runProgram: RunProgram,
): Promise<Pick<FoundTools, 'families' | 'missing'>> {
  const families = new Map<Family, Tools>();
  const missing: { family: Family; reason: string }[] = [];
  for (const family of FAMILIES) {
    const { code, stderr } = await runProgram(programName(family, variant, 'save'), ['-t', 'nat']);
    if (code === 0) families.set(family, toolsOf(family, variant, runProgram));
    else missing.push({ family, reason: firstLine(stderr) });
  }
  return { families, missing };
}

/**
 * Of legacy, iptables-save lists the tables that exist, and succeeds without any.
 * @param proves the kernel is asked for a table, too, which loads its module: only if nft does not work
 */
async function readingBy(
  variant: Variant,
  runProgram: RunProgram,
  { proves } = { proves: false },
): Promise<Reading | Unusable> {
  const name = (await has(variant, runProgram)) ? variant : undefined;
  if (name === undefined && (await plainVariant(runProgram)) !== variant) {
    return { reason: missingText(programName('IPv4', variant, 'save')) };
  }
  const outputs: string[] = [];
  for (const family of FAMILIES) {
    const program = programName(family, name, 'save');
    const { code, stdout, stderr } = await runProgram(program, []);
    if (code === 0) outputs.push(stdout);
    else if (family === 'IPv4') return { reason: `${program}: ${firstLine(stderr)}` };
  }
  if (proves) {
    const program = programName('IPv4', name, 'save');
    const { code, stderr } = await runProgram(program, ['-t', 'nat']);
    if (code !== 0) return { reason: `${program}: ${firstLine(stderr)}` };
  }
  return readingOf(outputs);
}

async function has(variant: Variant, runProgram: RunProgram): Promise<boolean> {
  return (await runProgram(programName('IPv4', variant, 'save'), ['--version'])).code === 0;
}

/** What `iptables` without a variant in its name is: before 1.8 there was only legacy. */
async function plainVariant(runProgram: RunProgram): Promise<Variant | undefined> {
  const { code, stdout } = await runProgram('iptables-save', ['--version']);
  if (code !== 0) return undefined;
  return stdout.includes('nf_tables') ? 'nft' : 'legacy';
}

const firstLine = (stderr: string): string =>
  stderr
    .split('\n')
    .find((line) => line.trim() !== '' && !line.startsWith('#'))
    ?.trim() ?? 'it failed without a message';
