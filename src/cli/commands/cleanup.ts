// SPDX-License-Identifier: Apache-2.0
// `fairlead cleanup`: removes every link, map, pin, iptables rule and file of one instance, and the annotation of its Node, and
// prints each; with --kube-proxy what kube-proxy has left instead.
import { Command, Option } from 'commander';
import { DEFAULT_BPF_ROOT, DEFAULT_RUN_DIR } from '../../config/instance-paths.ts';
import { FairleadError } from '../../errors.ts';
import { lockWrittenRules } from '../../instance/leftovers/written-rules.ts';
import { checkMayList } from '../../instance/preflight/checks.ts';
import { askAgent } from '../../server/admin-socket.ts';
import { findAnnotation, type OwnAnnotation } from '../cleanup/annotation.ts';
import { drain, wouldDrain } from '../cleanup/drain.ts';
import { durationMs } from '../flags.ts';
import { print, say } from '../output.ts';
import {
  type InstanceParts,
  type InstancePaths,
  listInstance,
  partsText,
  removeInstance,
} from '../remove-instance.ts';

interface CleanupOptions extends InstancePaths {
  readonly dryRun: boolean;
  /** What established connections need stays. */
  readonly drain?: boolean;
  /** Milliseconds for another proxy to serve this node before; 0: none is waited for. */
  readonly waitForProxy?: number;
}

const DEFAULT_WAIT = '1m';

export function cleanupCommand(): Command {
  return new Command('cleanup')
    .description(
      'remove the programs, links, maps, iptables rules and files of an instance, or what kube-proxy has left',
    )
    .option('--bpf-root <dir>', 'directory where its maps and links are pinned', DEFAULT_BPF_ROOT)
    .option('--run-dir <dir>', 'directory of its admin socket and state', DEFAULT_RUN_DIR)
    .option(
      '--kube-proxy',
      'remove the rules, tables, ipsets and devices that kube-proxy has left, instead of an instance',
      false,
    )
    .option(
      '--drain',
      'begin no connection any more, but keep translating those that are established; remove the rest when run again after they have ended',
      false,
    )
    .addOption(
      new Option(
        '--wait-for-proxy <duration>',
        'with --drain: how long to wait until another proxy, such as kube-proxy, has rules for the Services that fairlead serves; without one nothing is changed. `none`: whether there is one or not',
      )
        .argParser((text) => (text === 'none' ? 0 : durationMs(text)))
        .default(durationMs(DEFAULT_WAIT), DEFAULT_WAIT),
    )
    .option('--dry-run', 'only print what would be done', false)
    .action(async ({ kubeProxy, ...options }: CleanupOptions & AlsoKubeProxy, command: Command) => {
      checkWait(options, command);
      if (!kubeProxy) return cleanupInstance(options);
      const { cleanupKubeProxy } = await import('../cleanup/cleanup.ts');
      return cleanupKubeProxy(options);
    });
}

interface AlsoKubeProxy {
  readonly kubeProxy: boolean;
}

function checkWait({ drain: drains }: CleanupOptions, command: Command): void {
  if (drains === true || command.getOptionValueSource('waitForProxy') !== 'cli') return;
  throw new FairleadError('BAD_OPTION', '--wait-for-proxy goes with --drain only');
}

/**
 * Throws NO_PRIVILEGE, with `drain` TIMED_OUT, and except on a dry run, which changes nothing, ALREADY_RUNNING, IPTABLES_IN_USE, and
 * at the end CLEANUP_FAILED if the annotation of the Node is left.
 */
export async function cleanupInstance(options: CleanupOptions): Promise<void> {
  checkMayList();
  const annotation = await findAnnotation(options.runDir);
  if (options.dryRun) {
    if (annotation !== undefined) print(`would remove ${annotation.text}`);
    if (options.drain === true && (await wouldDrain(options))) return;
    report('would remove', listInstance(options), { ...options, annotation });
    return;
  }
  await refuseWhileRunning(options.runDir);
  const takeBack = async (): Promise<FairleadError | undefined> => annotation?.takeBack();
  if (options.drain === true && (await drain(options, options.waitForProxy ?? 0, takeBack))) {
    const left = await takeBack();
    if (left !== undefined) say(left.message);
    return;
  }
  // First, as the API server may be reached through what is removed, and others send less of what is lost then.
  const left = await takeBack();
  const lock = await lockWrittenRules(options.runDir);
  try {
    report('removed', removeInstance(options), { ...options, annotation });
  } finally {
    lock.close();
  }
  if (left !== undefined) throw left;
}

interface Reported {
  readonly bpfRoot: string;
  /** Reported already. */
  readonly annotation: OwnAnnotation | undefined;
}

function report(verb: string, parts: InstanceParts, { bpfRoot, annotation }: Reported): void {
  for (const name of parts.links) print(`${verb} link ${name} (with its program)`);
  for (const name of parts.maps) print(`${verb} map ${name}`);
  for (const { table, chains, jumps } of parts.rules.parts) {
    print(`${verb} ${chains} chains and ${jumps} jumps to them in table ${table}`);
  }
  for (const text of parts.rules.kept) print(`kept ${text}`);
  for (const address of parts.addresses) print(`${verb} address ${address} of the loopback device`);
  for (const path of parts.files) print(`${verb} file ${path}`);
  const summary = partsText(parts);
  if (summary === '' && annotation !== undefined) return;
  print(
    summary === ''
      ? `nothing to remove below ${bpfRoot}, and no iptables rules of fairlead`
      : `${verb} ${summary}`,
  );
}

/** A running agent would restore what is removed. */
async function refuseWhileRunning(runDir: string): Promise<void> {
  const status = await askAgent(runDir, '/v1/status').catch(() => undefined);
  if (status === undefined) return;
  const pid =
    typeof status === 'object' && status !== null && 'pid' in status ? String(status.pid) : '?';
  throw new FairleadError(
    'ALREADY_RUNNING',
    `the agent of this instance is running (pid ${pid}): stop it first`,
  );
}
