// SPDX-License-Identifier: Apache-2.0
// `npm run replay -- FILE`: builds a captured node in network namespaces, asks every frontend, then removes everything.
import { Command } from 'commander';
import { readCapture } from '../../src/cli/capture/file.ts';
import { jsonText, print, say } from '../../src/cli/output.ts';
import { EXIT, FairleadError } from '../../src/errors.ts';
import { checkNeeds } from '../lab/needs.ts';
import { removeLeftovers } from '../lab/ownership.ts';
import { exitOnSignals } from '../lab/topology.ts';
import type { ReplayRow } from '../replay/ask.ts';
import { replay } from '../replay/replay.ts';

interface ReplayOptions {
  readonly json: boolean;
  readonly engine?: string;
}

export function replayCommand(): Command {
  return new Command('replay')
    .description(
      'build the node of a capture in network namespaces, ask every frontend, and print what does not answer as explained; exits 1 if something does not',
    )
    .argument('<file>', 'a file of `fairlead capture`')
    .option('--engine <engine>', 'another engine than that of the captured agent')
    .option('--json', 'print one JSON report on stdout', false)
    .action(run);
}

async function run(file: string, { json, engine }: ReplayOptions): Promise<void> {
  exitOnSignals();
  const missing = (await checkNeeds()).filter(({ isMet }) => !isMet);
  if (missing.length > 0) {
    const texts = missing.map(({ name, text }) => `${name}: ${text}`);
    throw new FairleadError('NO_PRIVILEGE', `a capture cannot be replayed: ${texts.join('; ')}`);
  }
  removeLeftovers();
  const options = { onLine: say, ...(engine !== undefined && { engine }) };
  const report = await replay(readCapture(file), options);
  if (json) print(jsonText(report));
  else for (const row of report.rows) print(rowText(row));
  process.exitCode = report.isAsExplained ? EXIT.fine : EXIT.failed;
}

/** `ok  default/web 10.96.0.10:80/TCP from pod: forward to 2, answered 10.1.1.5:8080 x3` */
function rowText(row: ReplayRow): string {
  const { service, address, port, protocol, client, explained, answers, failures } = row;
  const counts = (some: Readonly<Record<string, number>>): string =>
    Object.entries(some)
      .map(([name, count]) => `${name} x${count}`)
      .join(', ');
  const got = [counts(answers), counts(failures)].filter((text) => text !== '').join('; ');
  const limits = explained.limits.length > 0 ? ` (${explained.limits.join('; ')})` : '';
  const wanted = `${explained.verdict} ${explained.backends.join(', ')}`.trim();
  const state = row.isAsExplained ? 'ok ' : 'NOT';
  return `${state} ${service} ${address} ${port}/${protocol} from ${client}: explained ${wanted}${limits}; got ${got}`;
}
