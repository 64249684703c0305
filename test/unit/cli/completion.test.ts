// SPDX-License-Identifier: Apache-2.0
// Completion scripts as the shells run them, over the program's real commands.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bypassCommand } from '../../../src/cli/commands/bypass.ts';
import { runCommand } from '../../../src/cli/commands/run.ts';
import { servicesCommand } from '../../../src/cli/commands/services.ts';
import { validateCommand } from '../../../src/cli/commands/validate.ts';
import { bashScript } from '../../../src/cli/completion/bash.ts';
import { completionCommand } from '../../../src/cli/completion/command.ts';
import { fishScript } from '../../../src/cli/completion/fish.ts';
import { treeOf } from '../../../src/cli/completion/tree.ts';
import { zshScript } from '../../../src/cli/completion/zsh.ts';
import { run } from '../../../src/sys/exec.ts';

const program = new Command('fairlead').description('eBPF kube-proxy replacement');
for (const command of [runCommand(), servicesCommand(), bypassCommand(), validateCommand()]) {
  program.addCommand(command);
}
program.addCommand(completionCommand(async () => program));
const tree = treeOf(program);

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'completion-'));
  writeFileSync(join(folder, 'config.yaml'), '');
  mkdirSync(join(folder, 'manifests'));
  writeFileSync(join(folder, 'bash'), bashScript(tree));
  writeFileSync(join(folder, 'zsh'), zshScript(tree));
  writeFileSync(join(folder, 'fish'), fishScript(tree));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The completions of bash for the last word, in a folder with config.yaml and manifests/. */
async function offered(...words: readonly string[]): Promise<readonly string[]> {
  const script = `source "$0"; cd "$(dirname "$0")"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    _fairlead; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = await run('bash', [
    '-c',
    script,
    join(folder, 'bash'),
    'fairlead',
    ...words,
  ]);
  expect(stderr).toBe('');
  return stdout.split('\n').filter((line) => line !== '');
}

describe('bash', () => {
  test('registers the function', async () => {
    const { stdout } = await run('bash', ['-c', `source "${folder}/bash"; complete -p fairlead`]);
    expect(stdout).toBe('complete -o filenames -F _fairlead fairlead\n');
  });

  const rows: readonly (readonly [words: readonly string[], offers: readonly string[]])[] = [
    [['ru'], ['run']],
    [
      ['bypass', ''],
      ['add', 'remove', 'list', '--help'],
    ],
    [['bypass', 'add', 'man'], ['manifests']],
    [['run', '--eph'], ['--ephemeral']],
    [
      ['run', '--engine', ''],
      ['auto', 'bpf', 'iptables', 'nftables', 'userspace'],
    ],
    [['run', '--engine', '=', 'i'], ['iptables']],
    [['run', '--detect-local-mode', 'Node'], ['NodeCIDR']],
    [['run', '--config', 'c'], ['config.yaml']],
    [['run', '--manifests', ''], ['manifests']],
    [['run', '--hostname-override', ''], []],
    [['run', '--masquerade-all', '--cluster-c'], ['--cluster-cidr']],
    [['services', '-o', 'w'], ['wide']],
    [['validate', 'con'], ['config.yaml']],
    [['completion', 'f'], ['fish']],
  ];
  test.each(rows)('%j', async (words, offers) => {
    expect(await offered(...words)).toEqual(offers);
  });

  test('offers every flag of run', async () => {
    const flags = runCommand().options.flatMap(({ long }) => long ?? []);
    expect(await offered('run', '--')).toEqual([...flags, '--help']);
  });
});

test.each(['zsh', 'fish'])('%s reads its script without an error', async (shell) => {
  const { code, stdout, stderr } = await run(shell, ['-n', join(folder, shell)]);
  // 127: this shell is not installed here.
  if (code !== 127) expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '', stderr: '' });
});

test('the scripts for fish and zsh have every command and flag', () => {
  const flags = runCommand().options.flatMap(({ long }) => long ?? []);
  for (const flag of flags) {
    expect(fishScript(tree)).toContain(` -l ${flag.slice(2)} `);
    expect(zshScript(tree)).toMatch(new RegExp(`'${flag}=?\\[`));
  }
});
