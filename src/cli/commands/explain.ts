// SPDX-License-Identifier: Apache-2.0
// `fairlead explain`: what happens to a packet, and why. Answered by the running agent, or, with --manifests,
// from manifests only, which needs neither privileges nor an agent.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import type { FlagValues } from '../../config/flags/flags.ts';
import { loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/types.ts';
import { diagnosticText } from '../../config/types.ts';
import { EXIT, FairleadError } from '../../errors.ts';
import { problemText } from '../../model/problem.ts';
import { type Answer, answer } from '../../observe/answer.ts';
import { problemsOf } from '../../observe/status.ts';
import { type Packet, parsePacket } from '../../plan/explain/packet.ts';
import { createPlanner } from '../../plan/planner.ts';
import { READING_TIMEOUT_MS } from '../../server/admin-socket.ts';
import { readManifests } from '../../source/manifests/manifests.ts';
import { type AskedOf, addCaptureOption, askOf } from '../capture/answers.ts';
import { composed } from '../composed.ts';
import { addPlanFlags, flagValues } from '../config-flags.ts';
import { deviceSettings } from '../device-settings.ts';
import { addOutputOption, machine, type OutputFormat, print, say } from '../output.ts';
import { explanationText } from '../view/explanation-text.ts';

interface ExplainOptions {
  readonly from: string;
  readonly to: string;
  readonly interface?: string;
  readonly capture?: string;
  readonly output: OutputFormat;
}

export function explainCommand(): Command {
  const command = new Command('explain')
    .description(
      'explain what happens to a packet, according to the running agent, to --manifests or to --capture',
    )
    .requiredOption(
      '--from <address>',
      'source of the packet, e.g. 10.1.1.9 or 10.1.1.9:40000: the port matters to maglev alone',
    )
    .requiredOption(
      '--to <destination>',
      'destination of the packet, e.g. 192.0.2.10:80/tcp or [2001:db8::10]:80/tcp',
    )
    .addOption(
      new Option(
        '--interface <name>',
        'interface that receives the packet, for local detection by interface',
      ),
    );
  return addPlanFlags(addOutputOption(addCaptureOption(command), ['text', 'json', 'yaml']), [
    'manifests',
    'devices',
    'run-dir',
  ]).action((options: ExplainOptions) => run(options, command));
}

async function run(
  { from, to, interface: by, capture, output }: ExplainOptions,
  command: Command,
): Promise<void> {
  const parsed = parsePacket(from, to, by);
  if (!parsed.ok) throw new FairleadError('BAD_OPTION', parsed.reason);
  const flags = flagValues(command);
  const { config } = loadConfig(flags);
  for (const warning of config.warnings) say(diagnosticText(warning));
  const { source } = config;
  const isManifests = source.kind === 'manifests' && capture === undefined;
  if (!isManifests) for (const text of unusedFlags(flags)) say(text);
  const found = isManifests
    ? await fromManifests(resolve(source.dir), config, parsed.packet)
    : await fromAgent(
        { runDir: resolve(config.own.runDir), ...(capture !== undefined && { capture }) },
        { from, to, ...(by !== undefined && { by }) },
      );
  print(
    output.kind === 'text' ? explanationText(parsed.packet, found) : await machine(found, output),
  );
}

/** An agent answers with the settings it runs with, whatever the command line says. */
function unusedFlags(flags: FlagValues): readonly string[] {
  return Object.keys(flags)
    .filter((flag) => flag !== 'config' && flag !== 'run-dir')
    .map((flag) => `--${flag} has no effect: the agent answers with its own settings`);
}

async function fromManifests(dir: string, config: Config, packet: Packet): Promise<Answer> {
  if (!existsSync(dir))
    throw new FairleadError('NO_MANIFESTS', `--manifests ${dir} does not exist`);
  const source = await readManifests(dir);
  const { problems } = source;
  const plan = createPlanner(config.plan).apply(source.changes);
  for (const problem of problemsOf(problems, source, plan.rejections)) say(problemText(problem));
  // What could not be read is missing in the answer.
  if (problems.some(({ isWarning }) => isWarning !== true)) process.exitCode = EXIT.degraded;
  return answer(plan, packet, {
    dataplanes: composed({ engine: config.engine, devices: deviceSettings(config) }),
  });
}

async function fromAgent(asked: AskedOf, query: Readonly<Record<string, string>>): Promise<Answer> {
  const route = `/v1/explain?${new URLSearchParams(query)}`;
  const found = await askOf(asked)(route, READING_TIMEOUT_MS);
  if (typeof found === 'object' && found !== null && 'verdict' in found) return found as Answer;
  throw new FairleadError(
    'NOT_RUNNING',
    `the agent at ${asked.runDir} has no plan yet: wait for it with \`fairlead status --wait\``,
  );
}
