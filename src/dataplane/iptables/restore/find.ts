// SPDX-License-Identifier: Apache-2.0
// Finds out which iptables to run on this node, and for which families.
import { FairleadError } from '../../../errors.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import { type RunResult, run } from '../../../sys/exec.ts';
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
  readonly missing: readonly MissingFamily[];
}

/** What the node's programs of one variant have said. */
interface Asked extends Reading {
  /** undefined: they have the plain name. */
  readonly name: Variant | undefined;
  /** IPv4 is not missing. */
  readonly missing: readonly MissingFamily[];
}

interface MissingFamily {
  readonly family: Family;
  readonly reason: string;
}

/** Throws NO_IPTABLES. Asks with as few programs as possible: a start waits for them. */
export async function findTools(runProgram: RunProgram = run): Promise<FoundTools> {
  const [nft, listed] = await Promise.all([
    askedOf('nft', runProgram),
    askedOf('legacy', runProgram),
  ]);
  const first = chooseVariant({ nft, legacy: listed });
  const legacy = first?.variant === 'legacy' ? await proven(listed, runProgram) : listed;
  const choice = chooseVariant({ nft, legacy });
  const chosen = choice?.variant === 'nft' ? nft : legacy;
  if (choice === undefined || 'reason' in chosen) {
    const reasons = [nft, legacy].flatMap((one) => ('reason' in one ? [one.reason] : []));
    throw new FairleadError(
      'NO_IPTABLES',
      `no iptables works on this node: ${[...new Set(reasons)].join('; ')}`,
    );
  }
  const { name, missing } = chosen;
  const isMissing = new Set(missing.map(({ family }) => family));
  const families = FAMILIES.filter((family) => !isMissing.has(family));
  return {
    ...choice,
    families: new Map(families.map((family) => [family, toolsOf(family, name, runProgram)])),
    missing,
  };
}

async function askedOf(variant: Variant, runProgram: RunProgram): Promise<Asked | Unusable> {
  for (const name of [variant, undefined]) {
    if (name === undefined && (await plainVariant(runProgram)) !== variant) break;
    const saved = await savedBy(name, [], runProgram);
    if (saved[0]?.code !== NOT_FOUND) return askedFrom(name, saved);
  }
  return { reason: missingText(programName('IPv4', variant, 'save')) };
}

/** Of run(), and of a shell. */
const NOT_FOUND = 127;

interface Saved extends RunResult {
  readonly family: Family;
  readonly program: string;
}

/** IPv4 first. */
const savedBy = (
  name: Variant | undefined,
  args: readonly string[],
  runProgram: RunProgram,
): Promise<readonly Saved[]> =>
  Promise.all(
    FAMILIES.map(async (family) => {
      const program = programName(family, name, 'save');
      return { family, program, ...(await runProgram(program, args)) };
    }),
  );

function askedFrom(name: Variant | undefined, saved: readonly Saved[]): Asked | Unusable {
  const failed = saved.filter(({ code }) => code !== 0);
  const ipv4 = failed.find(({ family }) => family === 'IPv4');
  if (ipv4 !== undefined) return { reason: `${ipv4.program}: ${firstLine(ipv4.stderr)}` };
  const missing = failed.map(({ family, program, code, stderr }) => ({
    family,
    reason: code === NOT_FOUND ? missingText(program) : firstLine(stderr),
  }));
  const outputs = saved.flatMap(({ code, stdout }) => (code === 0 ? [stdout] : []));
  return { name, missing, ...readingOf(outputs) };
}

/**
 * Of legacy, iptables-save lists the tables that exist, and succeeds without any. Asking for one loads its module: only if
 * it is to be used.
 */
async function proven(listed: Asked | Unusable, runProgram: RunProgram): Promise<Asked | Unusable> {
  if ('reason' in listed) return listed;
  const { name, hasHint, rules } = listed;
  const asked = askedFrom(name, await savedBy(name, ['-t', 'nat'], runProgram));
  return 'reason' in asked ? asked : { ...asked, hasHint, rules };
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
