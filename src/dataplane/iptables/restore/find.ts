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
  const [nft, listed] = await Promise.all([
    readingBy('nft', runProgram),
    readingBy('legacy', runProgram),
  ]);
  const legacy = 'reason' in nft ? await proven(listed, runProgram) : listed;
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
  const asked = FAMILIES.map(async (family) => {
    const program = programName(family, variant, 'save');
    return { family, program, ...(await runProgram(program, ['-t', 'nat'])) };
  });
  for (const { family, program, code, stderr } of await Promise.all(asked)) {
    if (code === 0) families.set(family, toolsOf(family, variant, runProgram));
    else missing.push({ family, reason: code === 127 ? missingText(program) : firstLine(stderr) });
  }
  return { families, missing };
}

async function readingBy(variant: Variant, runProgram: RunProgram): Promise<Reading | Unusable> {
  const name = await nameOf(variant, runProgram);
  if (name === 'none') return { reason: missingText(programName('IPv4', variant, 'save')) };
  const saved = FAMILIES.map(async (family) => {
    const program = programName(family, name, 'save');
    return { family, program, ...(await runProgram(program, [])) };
  });
  const outputs: string[] = [];
  for (const { family, program, code, stdout, stderr } of await Promise.all(saved)) {
    if (code === 0) outputs.push(stdout);
    else if (family === 'IPv4') return { reason: `${program}: ${firstLine(stderr)}` };
  }
  return readingOf(outputs);
}

/**
 * Of legacy, iptables-save lists the tables that exist, and succeeds without any. Asking for one loads its module: only if
 * nft does not work.
 */
async function proven(
  legacy: Reading | Unusable,
  runProgram: RunProgram,
): Promise<Reading | Unusable> {
  const name = await nameOf('legacy', runProgram);
  if ('reason' in legacy || name === 'none') return legacy;
  const program = programName('IPv4', name, 'save');
  const { code, stderr } = await runProgram(program, ['-t', 'nat']);
  return code === 0 ? legacy : { reason: `${program}: ${firstLine(stderr)}` };
}

/** undefined: it is what the plain name is. */
async function nameOf(
  variant: Variant,
  runProgram: RunProgram,
): Promise<Variant | 'none' | undefined> {
  if (await has(variant, runProgram)) return variant;
  return (await plainVariant(runProgram)) === variant ? undefined : 'none';
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
