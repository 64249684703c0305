// SPDX-License-Identifier: Apache-2.0
// `fairlead run`: the agent. Ends on SIGTERM or SIGINT within a second; traffic flows on. Floor 6.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { FairleadError } from '../errors.ts';
import { createLogger, LOG_LEVELS, type LogFormat, type LogLevel } from '../log.ts';
import { startInstance } from '../runtime/instance.ts';
import { manifestsSource } from '../runtime/source.ts';
import {
  addInstanceFlags,
  DEFAULT_BPF_ROOT,
  DEFAULT_RUN_DIR,
  durationMs,
  type InstanceOptions,
  mapSizes,
  planSettings,
} from './flags.ts';

interface RunOptions extends InstanceOptions {
  readonly manifests: string;
  readonly cgroupRoot?: string;
  readonly bpfRoot: string;
  readonly runDir: string;
  readonly mapSize: Readonly<Record<string, number>>;
  readonly auditInterval: number;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
}

export function runCommand(): Command {
  const command = new Command('run')
    .description('the agent: keeps the kernel in step with the Services of this node')
    .requiredOption(
      '--manifests <dir>',
      'folder of Service, EndpointSlice and Node manifests, followed live',
    )
    .option(
      '--cgroup-root <dir>',
      'cgroup v2 directory whose sockets are translated (default: the whole hierarchy)',
    )
    .option('--bpf-root <dir>', 'folder on a bpf file system for maps and links', DEFAULT_BPF_ROOT)
    .option('--run-dir <dir>', 'socket and state', DEFAULT_RUN_DIR)
    .option(
      '--map-size <sizes>',
      'e.g. frontends=65536,backends=131072 (also service-ports, set-lines, affinity)',
      mapSizes,
      {},
    )
    .option(
      '--audit-interval <duration>',
      'how often the kernel is read back and repaired',
      durationMs,
      600_000,
    )
    .addOption(new Option('--log-level <level>').choices(LOG_LEVELS).default('info'))
    .addOption(new Option('--log-format <format>').choices(['json', 'text']).default('json'));
  return addInstanceFlags(command).action(run);
}

async function run(options: RunOptions): Promise<void> {
  const log = createLogger(options.logLevel, options.logFormat);
  const instance = await startInstance(
    {
      plan: planSettings(options),
      openSource: manifestsSource(manifestsDir(options.manifests)),
      cgroupRoot: options.cgroupRoot === undefined ? undefined : resolve(options.cgroupRoot),
      bpfRoot: resolve(options.bpfRoot),
      runDir: resolve(options.runDir),
      mapSizes: options.mapSize,
      auditIntervalMs: options.auditInterval,
    },
    log,
  );
  const stop = (signal: string): void => {
    instance.stop();
    log.info({ signal }, 'stopped, traffic flows on');
    process.exit(0);
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}

function manifestsDir(dir: string): string {
  const path = resolve(dir);
  if (existsSync(path)) return path;
  throw new FairleadError(
    'NO_MANIFESTS',
    `--manifests ${path} does not exist: make it, or name a folder of Service, EndpointSlice and Node manifests`,
  );
}
