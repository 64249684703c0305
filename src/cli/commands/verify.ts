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
  const view = (await askAgent(runDir, '/v1/verify', TIMEOUT_MS)) as Partial<VerifyView>;
  if (!isView(view) || (view.verifiedAt === undefined && view.problem === undefined))
    throw new FairleadError(
      'NOT_RUNNING',
      `the agent at ${runDir} has no plan yet: wait for it with \`fairlead status --wait\``,
    );
  const report = { apiVersion: 'fairlead.io/v1', kind: 'VerifyReport', ...view };
  print(output.kind === 'text' ? verifyText(view) : await machine(report, output));
  const isProven = view.problem === undefined && view.unproven === 0 && view.found === 0;
  process.exitCode = isProven ? EXIT.fine : EXIT.degraded;
}

const isView = (view: Partial<VerifyView>): view is VerifyView => view.services !== undefined;
