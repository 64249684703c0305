// SPDX-License-Identifier: Apache-2.0
// The programs that write rules, for the columns that use them, and how rules are removed from a node of the comparison.
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type RunOptions, type RunResult, run } from '../../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from '../../lab/sandbox.ts';

export type Variant = 'legacy' | 'nft';

const NO_RULES = ['nat', 'filter', 'mangle'].map((table) => `*${table}\nCOMMIT\n`).join('');
const RESTORES = ['iptables-legacy-restore', 'ip6tables-legacy-restore'];
/** A hundred thousand rules are not removed at once. */
const REMOVE_MS = 300_000;

const runIn = (
  sandbox: Sandbox,
  argv: readonly string[],
  options?: RunOptions,
): Promise<RunResult> => {
  const [shell = 'sh', ...args] = insideSandbox(sandbox, argv);
  return run(shell, args, options);
};

/** Removes every rule of the node's network, which is ours. A program that is missing has left none. */
export async function removeRules(node: Sandbox, lock: string): Promise<void> {
  await runIn(node, ['nft', 'flush', 'ruleset'], { timeoutMs: REMOVE_MS });
  for (const restore of RESTORES) {
    await runIn(node, ['env', lock, restore], { stdin: NO_RULES, timeoutMs: REMOVE_MS });
  }
}

/** As the kubelet does, after whose chain of this name a proxy decides which iptables it uses: another one would be measured without it. */
export async function leaveKubeletChain(
  node: Sandbox,
  variant: Variant,
  lock: string,
): Promise<void> {
  for (const tool of ['iptables', 'ip6tables']) {
    const chain = ['-w', '5', '-t', 'mangle', '-N', 'KUBE-IPTABLES-HINT'];
    const { code, stderr } = await runIn(node, ['env', lock, `${tool}-${variant}`, ...chain]);
    // A kernel may lack IPv6.
    if (code !== 0 && tool === 'iptables') throw new Error(`${tool}-${variant}: ${stderr.trim()}`);
  }
}

/** A folder to put first in PATH, where `iptables` and related commands are of one variant. */
export async function makeToolFolder(directory: string, variant: Variant): Promise<string> {
  const { stdout } = await run('sh', ['-c', `command -v xtables-${variant}-multi`]);
  const folder = join(directory, `iptables-${variant}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const tool of ['iptables', 'ip6tables']) {
    for (const suffix of ['', '-save', '-restore']) {
      symlinkSync(stdout.trim(), join(folder, tool + suffix));
    }
  }
  return folder;
}

/** What of these cannot be run. */
export async function missingPrograms(programs: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(
    programs.map(async (name) => (await run('sh', ['-c', `command -v ${name}`])).code === 0),
  );
  return programs.filter((_, at) => !found[at]);
}
