// SPDX-License-Identifier: Apache-2.0
// Finds out which iptables to run on this node, and for which families.
import { FairleadError } from '../../../errors.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import { type RunResult, run } from '../../../sys/exec.ts';
import { rulesGeneration } from '../../../sys/netfilter.ts';
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
  /** What iptables-save prints. IPv4 is not missing. */
  readonly saved: ReadonlyMap<Family, string>;
  readonly missing: readonly MissingFamily[];
}

interface MissingFamily {
  readonly family: Family;
  readonly reason: string;
}

/** Throws NO_IPTABLES. Asks with as few programs as possible: a start waits for them. @param generation of nft's rules */
export async function findTools(
  runProgram: RunProgram = run,
  generation: Generation = rulesGeneration,
): Promise<FoundTools> {
  const before = generation();
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
  const { name, saved, missing } = chosen;
  const toolsFor = (family: Family, text: string): Tools => {
    const tools = toolsOf(family, name, runProgram);
    if (choice.variant === 'legacy') return tools;
    return withFirstReading(tools, { text, generation: before }, generation);
  };
  const families = new Map([...saved].map(([family, text]) => [family, toolsFor(family, text)]));
  return { ...choice, families, missing };
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
  const texts = new Map(
    saved.flatMap(({ code, family, stdout }) => (code === 0 ? [[family, stdout] as const] : [])),
  );
  return { name, saved: texts, missing, ...readingOf([...texts.values()]) };
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

// The rules as they were read when the variant was chosen. A start needs them twice more, for what an earlier agent has programmed and
// before its first write, and with iptables-nft each reading of an agent's rules takes as long as writing some: as long as the kernel's
// generation is the same, nobody has written any since.

/** One more with each transaction that changes rules; undefined: not known. */
type Generation = () => number | undefined;

interface FirstReading {
  readonly text: string;
  /** Before it was read. */
  readonly generation: number | undefined;
}

function withFirstReading(tools: Tools, reading: FirstReading, now: Generation): Tools {
  let known: FirstReading | undefined = reading;
  return {
    ...tools,
    async save(options = {}) {
      const first = known;
      const isSame = first?.generation !== undefined && first.generation === now();
      if (options.isLast === true || !isSame) known = undefined;
      if (first === undefined || !isSame || options.counters === true) return tools.save(options);
      return first.text;
    },
  };
}
