// SPDX-License-Identifier: Apache-2.0
// `fairlead status`: whether every Service is programmed and, if not, why; also by exit code.
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { EXIT, FairleadError, reasonOf } from '../../errors.ts';
import { createLeftoverWarning } from '../../instance/leftovers/warning.ts';
import { countFrontends, type Health, healthOf } from '../../observe/health.ts';
import type { ServiceRow } from '../../observe/service-rows.ts';
import type { Status } from '../../observe/status.ts';
import { askAgent, READING_TIMEOUT_MS } from '../../server/admin-socket.ts';
import { type Ask, addCaptureOption, askOf } from '../capture/answers.ts';
import { addRunDirOption, timeoutOption } from '../flags.ts';
import { addOutputOption, machine, type OutputFormat, show } from '../output.ts';
import { type Report, statusText } from '../view/status-text.ts';

interface StatusOptions {
  readonly runDir: string;
  readonly capture?: string;
  readonly output: OutputFormat;
  readonly watch: boolean;
  readonly wait: boolean;
  readonly timeout: number;
}

export function statusCommand(): Command {
  const command = addCaptureOption(
    addRunDirOption(
      new Command('status').description(
        'show whether every Service is programmed and what was rejected; exits 3 if degraded',
      ),
    ),
  );
  return addOutputOption(command, ['table', 'wide', 'json', 'yaml'])
    .option('-w, --watch', 'print again after each change', false)
    .option('--wait', 'wait until the initial sync is complete', false)
    .addOption(timeoutOption('maximum time to --wait, e.g. 30 (seconds), 90s, 5m', '5m'))
    .action(status);
}

async function status(options: StatusOptions): Promise<void> {
  const { runDir, capture, output, watch, wait, timeout } = options;
  const isLive = capture === undefined;
  const ask = askOf(options);
  if (wait && isLive) await waitUntilReady(runDir, timeout);
  const leftovers = isLive ? createLeftoverWarning() : async () => undefined;
  await show(
    async () => {
      const report = await reportOf(ask, leftovers);
      // Set before printing: the reader of a pipe may have closed it by then.
      process.exitCode = report.health.state === 'in sync' ? EXIT.fine : EXIT.degraded;
      const { kind } = output;
      return kind === 'table' || kind === 'wide'
        ? { text: statusText(report, kind === 'wide') }
        : { text: await machine(report, output) };
    },
    { isWatching: watch && isLive, format: output },
  );
}

async function reportOf(ask: Ask, leftovers: () => Promise<string | undefined>): Promise<Report> {
  const asked = (await ask('/v1/status')) as Report;
  const warning = await leftovers();
  const { rows, unread } = await servicesOf(ask);
  const frontends = countFrontends(rows);
  const limits = rows.flatMap(({ namespace, name, frontend, limits: reasons }) =>
    reasons.map((reason) => ({ service: `${namespace}/${name}`, frontend, reason })),
  );
  const warnings = [warning, unread].filter((text) => text !== undefined);
  const health = unread === undefined ? healthOf(asked, frontends) : UNREAD;
  return { ...asked, health, frontends, limits, warnings };
}

const UNREAD: Health = {
  state: 'degraded',
  reasons: ['what is programmed cannot be read'],
};

interface Read {
  readonly rows: readonly ServiceRow[];
  /** Why there are no rows. */
  readonly unread?: string;
}

/** An agent that cannot read what it has programmed still has a status. */
async function servicesOf(ask: Ask): Promise<Read> {
  try {
    const rows = await ask('/v1/services', READING_TIMEOUT_MS);
    return { rows: rows as readonly ServiceRow[] };
  } catch (error) {
    if (error instanceof FairleadError) throw error;
    return { rows: [], unread: reasonOf(error) };
  }
}

async function waitUntilReady(runDir: string, timeoutMs: number): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const answer = await askAgent(runDir, '/v1/status').catch(notRunning);
    if ((answer as Status | undefined)?.isReady === true) return;
    if (Date.now() > deadline) {
      throw new FairleadError(
        'TIMED_OUT',
        `the agent at ${runDir} was not ready within ${timeoutMs / 1000} s`,
      );
    }
    await sleep(50);
  }
}

/** An agent that does not answer may still be starting; other errors are final. */
function notRunning(error: unknown): undefined {
  if (error instanceof FairleadError && error.code === 'NOT_RUNNING') return undefined;
  throw error;
}
