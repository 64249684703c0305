// SPDX-License-Identifier: Apache-2.0
// `fairlead status`: is it in the kernel, is it in step, and what was refused.
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import { EXIT, FairleadError } from '../errors.ts';
import { problemText, type Status } from '../observe/status.ts';
import { askAgent } from '../server/admin-socket.ts';
import { DEFAULT_RUN_DIR, durationMs } from './flags.ts';
import { machine, OUTPUT_FORMATS, type OutputFormat, show } from './output.ts';

interface StatusOptions {
  readonly runDir: string;
  readonly output: OutputFormat;
  readonly watch: boolean;
  readonly wait: boolean;
  readonly timeout: number;
}

export function statusCommand(): Command {
  return new Command('status')
    .description(
      'what the agent of an instance does and what it refused; exit code 3 if it is not in step',
    )
    .option('--run-dir <dir>', 'where the agent serves its socket', DEFAULT_RUN_DIR)
    .addOption(
      new Option('-o, --output <format>', 'how to print').choices(OUTPUT_FORMATS).default('table'),
    )
    .option('-w, --watch', 'print again when something changed', false)
    .option('--wait', 'until the first complete plan is in the kernel', false)
    .option('--timeout <duration>', 'with --wait', durationMs, 300_000)
    .action(status);
}

async function status(options: StatusOptions): Promise<void> {
  if (options.wait) await waitUntilReady(options);
  let last: Status | undefined;
  await show(async () => {
    last = (await askAgent(options.runDir, '/v1/status')) as Status;
    const { output } = options;
    return output === 'json' || output === 'yaml'
      ? machine(last, output)
      : statusText(last, output === 'wide');
  }, options.watch);
  if (last !== undefined && !isInStep(last)) process.exitCode = EXIT.degraded;
}

async function waitUntilReady({ runDir, timeout }: StatusOptions): Promise<void> {
  const deadline = Date.now() + timeout;
  for (;;) {
    const answer = await askAgent(runDir, '/v1/status').catch(() => undefined);
    if ((answer as Status | undefined)?.isReady === true) return;
    if (Date.now() > deadline) {
      throw new FairleadError(
        'TIMED_OUT',
        `the agent at ${runDir} was not ready within ${timeout / 1000} s`,
      );
    }
    await sleep(50);
  }
}

const isInStep = (status: Status): boolean => status.isReady && status.sync.failed.length === 0;

export function statusText(status: Status, isWide: boolean): string {
  if (!status.isReady) return startingText(status);
  const { sync } = status;
  const taken = status.hooks.filter((hook) => hook.isTakenOver).length;
  const lines: Line[] = [
    ['Fairlead', `${status.version}, pid ${status.pid}, since ${status.startedAt}`],
    ['Node', `${status.node}, Linux ${status.kernel}`],
    ...sourceLines(status),
    [
      'Sockets',
      `${status.hooks.length} hooks on ${status.cgroupRoot}${taken > 0 ? ` (${taken} taken over)` : ''}, refused connections see ${status.refusesWith}`,
    ],
    ['Pins', status.bpfRoot],
    [
      'Sync',
      `${isInStep(status) ? 'in step' : 'NOT in step'}, ${sync.count} syncs, last ${sync.lastAt ?? 'never'} in ${sync.lastDurationMs?.toFixed(1) ?? '-'} ms`,
    ],
    ['Audit', `${sync.driftTotal} differences repaired, last ${sync.lastAuditAt ?? 'not yet'}`],
    ['Services', String(status.services)],
    ...status.tables.map(
      ({ name, used, capacity }) => ['Table', `${name} ${used} of ${capacity}`] as const,
    ),
    ...sync.failed.map(
      ({ id, reason, service }) => ['Failing', `${service ?? ''} ${id}: ${reason}`] as const,
    ),
    ...problemLines(status),
    ...(isWide ? wideLines(status) : []),
  ];
  return textOf(lines);
}

type Line = readonly [title: string, text: string];

const textOf = (lines: readonly Line[]): string =>
  lines.map(([title, text]) => `${`${title}:`.padEnd(11)}${text}`).join('\n');

/** The socket answers before there is a source to tell of. */
function startingText(status: Pick<Status, 'pid'> & Partial<Status>): string {
  const first = `starting (pid ${status.pid}): the first complete plan is not in the kernel yet`;
  if (status.source === undefined) return first;
  return [
    first,
    textOf([...sourceLines(status as Status), ...problemLines(status as Status)]),
  ].join('\n');
}

const problemLines = ({ problems }: Pick<Status, 'problems'>): readonly Line[] =>
  problems.map((problem) => [
    // What has no object is no fault of an object.
    problem.object === undefined && problem.file === undefined ? 'Problem' : 'Refused',
    problemText(problem),
  ]);

function sourceLines({ source }: Pick<Status, 'source'>): readonly Line[] {
  const { kind, location, cluster } = source;
  if (cluster === undefined) return [['Source', `${kind} ${location}`]];
  const others = cluster.servers.length - 1;
  return [
    ['Source', `${kind} ${cluster.server}${others > 0 ? ` (and ${others} more to turn to)` : ''}`],
    ['Chosen', cluster.why],
    ['Watches', cluster.watches.map(watchText).join(', ')],
  ];
}

type Watch = NonNullable<Status['source']['cluster']>['watches'][number];

/** `Service 12 objects, heard 3 s ago`. */
function watchText({ kind, state, objects, aliveAgeMs }: Watch): string {
  if (state === 'absent') return `${kind} not served here`;
  if (aliveAgeMs === undefined) return `${kind} never heard`;
  const age = `heard ${Math.round(aliveAgeMs / 1000)} s ago`;
  return `${kind} ${objects} ${objects === 1 ? 'object' : 'objects'}, ${age}${state === 'watching' ? '' : ` (${state})`}`;
}

function wideLines(status: Status): readonly Line[] {
  return [
    ...status.hooks.map(
      ({ name, insns }) => ['Hook', `${name}, ${insns} instructions verified`] as const,
    ),
    ...Object.entries(status.reasons).map(
      ([name, count]) => ['Calls', `${name} ${count}`] as const,
    ),
  ];
}
