// SPDX-License-Identifier: Apache-2.0
// `fairlead explain`: what the manifests in a folder mean for one packet. Needs no privilege, no kernel and
// no agent: it reads the folder, builds the plan an agent would, and asks it.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { loadConfig } from '../config/load.ts';
import { diagnosticText } from '../config/types.ts';
import { FairleadError } from '../errors.ts';
import { explain } from '../plan/explain/explain.ts';
import { parsePacket } from '../plan/explain/packet.ts';
import { explanationJson, explanationText } from '../plan/explain/text.ts';
import { createPlanner } from '../plan/planner.ts';
import { refText } from '../plan/types.ts';
import { readManifests } from '../source/manifests/manifests.ts';
import { addPlanFlags, flagValues } from './config-flags.ts';
import { print, say } from './output.ts';

interface ExplainOptions {
  readonly manifests: string;
  readonly from: string;
  readonly to: string;
  readonly interface?: string;
  readonly output: 'text' | 'json';
}

export function explainCommand(): Command {
  const command = new Command('explain')
    .description('what would become of a packet, and why: reads manifests, touches nothing')
    .requiredOption('--manifests <dir>', 'folder of Service, EndpointSlice and Node manifests')
    .requiredOption('--from <address>', 'client, e.g. 10.1.1.9')
    .requiredOption('--to <destination>', 'e.g. 192.0.2.10:80/tcp or [2001:db8::10]:80/tcp')
    .option('--interface <name>', 'interface the packet comes in by, for detection by interface')
    .addOption(
      new Option('-o, --output <format>', 'how to print').choices(['text', 'json']).default('text'),
    );
  return addPlanFlags(command).action(run);
}

async function run(options: ExplainOptions, command: Command): Promise<void> {
  const parsed = parsePacket(options.from, options.to, options.interface);
  if (!parsed.ok) throw new FairleadError('BAD_OPTION', parsed.reason);
  const { config } = loadConfig(flagValues(command));
  for (const warning of config.warnings) say(diagnosticText(warning));
  const { changes, problems } = await readManifests(manifestsDir(options.manifests));
  const { plan } = createPlanner(config.plan).apply(changes);
  for (const { file, line, reason } of problems) say(`${file}:${line}: ${reason}`);
  for (const { object, field, reason } of plan.rejections) {
    say(`${refText(object)}: ${field}: ${reason}`);
  }
  const explanation = explain(plan, parsed.packet);
  print(
    options.output === 'json'
      ? explanationJson(explanation)
      : explanationText(parsed.packet, explanation),
  );
}

function manifestsDir(dir: string): string {
  const path = resolve(dir);
  if (existsSync(path)) return path;
  throw new FairleadError('NO_MANIFESTS', `--manifests ${path} does not exist`);
}
