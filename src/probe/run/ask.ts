// SPDX-License-Identifier: Apache-2.0
// Asks `fairlead probe` in a process of its own why a start did not work: the command leaves its namespaces.

import { FairleadError } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import type { Engine } from '../choice.ts';
import { isUnexplained } from '../fallback.ts';
import type { ProbeReport } from '../report.ts';

/** A probe takes two seconds, and longer on a busy node. */
const TIMEOUT_MS = 30_000;

export type AskProbe = (engine: Engine) => Promise<ProbeReport | undefined>;

/** undefined: no report. */
const askProbe: AskProbe = async (engine) => {
  const words = ['probe', '--output', 'json', '--engine', engine];
  const argv = [process.argv[1] ?? '', ...words];
  const { run } = await import('../../sys/exec.ts');
  const { stdout } = await run(process.execPath, argv, { timeoutMs: TIMEOUT_MS });
  try {
    return JSON.parse(stdout) as ProbeReport;
  } catch {
    return undefined;
  }
};

/** A start does not wait for it. */
export function explainLater(log: Pick<Logger, 'warn'>, ask: AskProbe = askProbe): void {
  const tell = (report: ProbeReport | undefined): void => {
    if (report === undefined || !report.engine.ok || report.engine.why.length === 0) return;
    const { tier, engine } = report;
    log.warn({ why: engine.why, tier: tier?.name, needs: tier?.missing }, 'probe result');
  };
  ask('auto').then(tell, () => undefined);
}

/** The error with the probe's code and reason, if the error does not name the cause and the probe has found it. */
export async function explained(
  error: unknown,
  engine: Engine,
  ask: AskProbe = askProbe,
): Promise<unknown> {
  if (!isUnexplained(error)) return error;
  const found = (await ask(engine))?.engine;
  if (found === undefined || found.ok) return error;
  const { code, reason, remedy } = found;
  const detail = [error.message, error.detail].filter((part) => part !== undefined).join('\n');
  return new FairleadError(
    code,
    `--engine ${engine} cannot work on this node: ${reason}; what would change it: ${remedy} (\`fairlead probe\` shows everything)`,
    detail,
  );
}
