// SPDX-License-Identifier: Apache-2.0
// `fairlead verify`: the agent lists all objects once more, beside its watch, reads its maps or rules, and compares the two.
import { Command } from 'commander';
import { EXIT, FairleadError } from '../../errors.ts';
import { type VerifyView, verifyText } from '../../observe/verify-view.ts';
import { askAgent } from '../../server/admin-socket.ts';
import { addRunDirOption } from '../flags.ts';
import { addOutputOption, machine, type OutputFormat, print } from '../output.ts';

/** Two lists, two readings of every map, and an audit. */
const TIMEOUT_MS = 120_000;

export function verifyCommand(): Command {
  const command = new Command('verify').description(
    'prove that the kernel has what the API server says, by lists beside the watch, and repair what differs from the plan; exits 3 if something differs',
  );
  return addOutputOption(addRunDirOption(command), ['text', 'json', 'yaml']).action(verify);
}

async function verify({
  runDir,
  output,
}: {
  readonly runDir: string;
  readonly output: OutputFormat;
}): Promise<void> {
  const view = viewIn(await askAgent(runDir, '/v1/verify', TIMEOUT_MS));
  if (view === undefined)
    throw new FairleadError(
      'NOT_RUNNING',
      `the agent at ${runDir} has no plan yet, or runs with --shadow: see \`fairlead status\``,
    );
  const report = { apiVersion: 'fairlead.io/v1', kind: 'VerifyReport', ...view };
  print(output.kind === 'text' ? verifyText(view) : await machine(report, output));
  process.exitCode = isProven(view) ? EXIT.fine : EXIT.degraded;
}

/** Undefined: the agent has read nothing, as it has no plan yet. */
export function viewIn(answer: unknown): VerifyView | undefined {
  const view = answer as Partial<VerifyView> | undefined;
  if (view?.services === undefined) return undefined;
  const isRead = view.verifiedAt !== undefined || view.problem !== undefined;
  return isRead ? (view as VerifyView) : undefined;
}

/** Also what was found, and is repaired now, was wrong. */
export const isProven = ({ problem, unproven, found }: VerifyView): boolean =>
  problem === undefined && unproven === 0 && found === 0;
