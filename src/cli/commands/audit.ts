// SPDX-License-Identifier: Apache-2.0
// `fairlead audit`: the agent reads the programmed state back, compares it with the desired state and repairs
// the drift, as it also does every --audit-interval. The command prints the drift.
import { Command } from 'commander';
import type { Entry } from '../../engines/entry.ts';
import { EXIT, FairleadError } from '../../errors.ts';
import { askAgent } from '../../server/admin-socket.ts';
import { addRunDirOption } from '../flags.ts';
import { addOutputOption, machine, type OutputFormat, print } from '../output.ts';

/** It waits for the sync that runs, and then reads every map. */
const TIMEOUT_MS = 60_000;

interface AuditOptions {
  readonly runDir: string;
  readonly output: OutputFormat;
}

export function auditCommand(): Command {
  const command = new Command('audit').description(
    'read the kernel back, report drift from the desired state and repair it; exits 3 if there was any',
  );
  return addOutputOption(addRunDirOption(command), ['text', 'json', 'yaml']).action(audit);
}

async function audit({ runDir, output }: AuditOptions): Promise<void> {
  const drift = driftOf(await askAgent(runDir, '/v1/audit', TIMEOUT_MS));
  if (drift === undefined) {
    throw new FairleadError(
      'NOT_RUNNING',
      `the agent at ${runDir} has no plan yet: wait for it with \`fairlead status --wait\``,
    );
  }
  const report = { apiVersion: 'fairlead.io/v1', kind: 'AuditReport', drift };
  print(output.kind === 'text' ? auditText(drift) : await machine(report, output));
  process.exitCode = drift.length === 0 ? EXIT.fine : EXIT.degraded;
}

/** The text of each entry that differed; undefined if the agent has no plan yet. */
export function driftOf(answer: unknown): readonly string[] | undefined {
  if (typeof answer !== 'object' || answer === null || !('drift' in answer)) return undefined;
  if (!Array.isArray(answer.drift)) return undefined;
  return answer.drift.map(({ text }: Entry) => text);
}

export function auditText(drift: readonly string[]): string {
  if (drift.length === 0) return 'in sync: no drift found';
  const noun = drift.length === 1 ? 'difference' : 'differences';
  return [...drift.map((text) => `drift: ${text}`), `${drift.length} ${noun}, repaired`].join('\n');
}
