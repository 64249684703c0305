// SPDX-License-Identifier: Apache-2.0
// `fairlead capture`: all that is needed to look into a node elsewhere, as one file. Changes nothing, and needs no agent that
// answers.
import { createHmac, randomBytes } from 'node:crypto';
import { Command } from 'commander';
import { redacted } from '../../capture/redact/redact.ts';
import { loadConfig } from '../../config/load.ts';
import { diagnosticText } from '../../config/types.ts';
import { createLogger } from '../../log.ts';
import { readFlags } from '../../server/instance-file.ts';
import { addPlanFlags, flagValues } from '../config-flags.ts';
import { timeoutOption } from '../flags.ts';
import { say } from '../output.ts';
import { writeCapture } from './file.ts';
import { takeCapture } from './take.ts';

interface CaptureOptions {
  readonly output?: string;
  readonly timeout: number;
  readonly probe: boolean;
  readonly redact: boolean;
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
    .option(
      '--redact',
      'replace names and addresses, the same by the same: ranges and ports mean what they meant',
      false,
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

async function run(
  { output, timeout, probe, redact }: CaptureOptions,
  command: Command,
): Promise<void> {
  const given = flagValues(command);
  const noted = readFlags(loadConfig(given).config.own.runDir);
  const loaded = loadConfig({ ...noted, ...given });
  for (const warning of loaded.config.warnings) say(diagnosticText(warning));
  const log = createLogger('error', 'text');
  const whole = await takeCapture(loaded, { timeoutMs: timeout, log, isProbing: probe });
  const capture = redact ? redacted(whole, secretDigest()) : whole;
  for (const { what, reason } of capture.unread) say(`not read: ${what}: ${reason}`);
  const path = output ?? `fairlead-${capture.node}-${timeText(capture.takenAt)}.capture`;
  const bytes = writeCapture(path, capture);
  if (path !== '-') say(`${path}: ${Math.ceil(bytes / 1024)} KiB`);
}

/** A secret of this one file: nobody keeps it. */
function secretDigest(): (text: string) => Uint8Array {
  const secret = randomBytes(32);
  return (text) => createHmac('sha256', secret).update(text).digest();
}

/** `20261129T081500Z`: no character that a shell or a file system minds. */
const timeText = (iso: string): string => iso.replace(/\.\d+|[-:]/g, '');
