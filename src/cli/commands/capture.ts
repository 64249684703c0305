// SPDX-License-Identifier: Apache-2.0
// `fairlead capture`: all that is needed to look into a node elsewhere, as one file. Changes nothing, and needs no agent that
// answers.
import { Command } from 'commander';
import { loadConfig } from '../../config/load.ts';
import { diagnosticText } from '../../config/types.ts';
import { createLogger } from '../../log.ts';
import { readFlags } from '../../server/instance-file.ts';
import { writeCapture } from '../capture/file.ts';
import { takeCapture } from '../capture/take.ts';
import { addPlanFlags, flagValues } from '../config-flags.ts';
import { timeoutOption } from '../flags.ts';
import { say } from '../output.ts';

interface CaptureOptions {
  readonly output?: string;
  readonly timeout: number;
  readonly probe: boolean;
}

export function captureCommand(): Command {
  const command = new Command('capture')
    .description(
      'write what this node knows and has programmed into one file, from which commands answer elsewhere (--capture)',
    )
    .option(
      '-o, --output <file>',
      'the file to write, or - for stdout (default: fairlead-NODE-TIME.capture)',
    )
    .option('--no-probe', 'do not try what the kernel can do')
    .addOption(timeoutOption('how long to wait for each part', '30s'));
  return addPlanFlags(command, [
    'manifests',
    'kubeconfig',
    'api-servers',
    'run-dir',
    'bpf-root',
    'engine',
    'devices',
  ]).action((options: CaptureOptions) => run(options, command));
}

async function run({ output, timeout, probe }: CaptureOptions, command: Command): Promise<void> {
  const given = flagValues(command);
  const noted = readFlags(loadConfig(given).config.own.runDir);
  const loaded = loadConfig({ ...noted, ...given });
  for (const warning of loaded.config.warnings) say(diagnosticText(warning));
  const log = createLogger('error', 'text');
  const capture = await takeCapture(loaded, { timeoutMs: timeout, log, isProbing: probe });
  for (const { what, reason } of capture.unread) say(`not read: ${what}: ${reason}`);
  const path = output ?? `fairlead-${capture.node}-${timeText(capture.takenAt)}.capture`;
  const bytes = writeCapture(path, capture);
  if (path !== '-') say(`${path}: ${Math.ceil(bytes / 1024)} KiB`);
}

/** `20261129T081500Z`: no character that a shell or a file system minds. */
const timeText = (iso: string): string => iso.replace(/\.\d+|[-:]/g, '');
