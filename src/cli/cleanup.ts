// SPDX-License-Identifier: Apache-2.0
// `fairlead cleanup`: removes every link, program, map and pin of one instance, of any layout version,
// and says what it removed.
import { existsSync, rmSync } from 'node:fs';
import { relative } from 'node:path';
import { Command } from 'commander';
import { DEFAULT_BPF_ROOT, DEFAULT_RUN_DIR } from '../config/instance-paths.ts';
import { lockExistingPins } from '../dataplane/bpf/loader/lock.ts';
import { listPins, unpin } from '../dataplane/bpf/loader/pins.ts';
import { FairleadError } from '../errors.ts';
import { askAgent, socketPath } from '../server/admin-socket.ts';
import { openPinnedLink } from '../sys/native.ts';
import { print } from './output.ts';

interface CleanupOptions {
  readonly bpfRoot: string;
  readonly runDir: string;
  readonly dryRun: boolean;
}

export function cleanupCommand(): Command {
  return new Command('cleanup')
    .description('remove every program, link, map and pin of an instance')
    .option('--bpf-root <dir>', 'where its maps and links are pinned', DEFAULT_BPF_ROOT)
    .option('--run-dir <dir>', 'its socket and state', DEFAULT_RUN_DIR)
    .option('--dry-run', 'only say what would be removed', false)
    .action(cleanupInstance);
}

export async function cleanupInstance(options: CleanupOptions): Promise<void> {
  await refuseWhileRunning(options.runDir);
  const { bpfRoot, runDir } = options;
  const lock = options.dryRun
    ? undefined
    : lockExistingPins(bpfRoot, { command: 'cleanup', runDir });
  try {
    const removed = removeInstance(options);
    lock?.removeEmptyFolders();
    report(removed, options);
  } finally {
    lock?.close();
  }
}

/** What was removed, or would be, in words. */
function removeInstance(options: CleanupOptions): readonly string[] {
  const removed: string[] = [];
  for (const path of listPins(options.bpfRoot)) {
    const name = relative(options.bpfRoot, path);
    const isLink = name.includes('links/');
    if (!options.dryRun) {
      if (isLink) detach(path);
      unpin(path);
    }
    removed.push(isLink ? `link ${name} (its program with it)` : `map ${name}`);
  }
  const socket = socketPath(options.runDir);
  if (existsSync(socket)) {
    if (!options.dryRun) rmSync(socket, { force: true });
    removed.push(`socket ${socket}`);
  }
  return removed;
}

function report(removed: readonly string[], options: CleanupOptions): void {
  const verb = options.dryRun ? 'would remove' : 'removed';
  for (const what of removed) print(`${verb} ${what}`);
  print(
    removed.length === 0
      ? `nothing of fairlead below ${options.bpfRoot}`
      : `${verb} ${removed.length} things`,
  );
}

/** A running agent would put everything back. */
async function refuseWhileRunning(runDir: string): Promise<void> {
  const status = await askAgent(runDir, '/v1/status').catch(() => undefined);
  if (status === undefined) return;
  const pid =
    typeof status === 'object' && status !== null && 'pid' in status ? String(status.pid) : '?';
  throw new FairleadError(
    'ALREADY_RUNNING',
    `the agent of this instance still runs (pid ${pid}): stop it, then clean up`,
  );
}

/** Unpinning alone would leave the link alive while someone else holds it. */
function detach(path: string): void {
  const link = openPinnedLink(path);
  try {
    link.detach();
  } catch {
    // The cgroup is gone: the kernel detached it already.
  } finally {
    link.close();
  }
}
