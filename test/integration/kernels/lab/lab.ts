// SPDX-License-Identifier: Apache-2.0
// Runs a script of the lab (lab.sh) in a virtual machine, with the programs that it needs; what it prints is `what: answer` a line.
import { copyFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { packageRoot } from '../../../../src/sys/package.ts';
import { compiled } from '../../../support/programs/compiled.ts';
import { type Guest, guestOf, type Kernel } from '../guest.ts';

const SOURCES = [
  'test/support/fixture/programs/client.c',
  'test/support/fixture/programs/server.c',
  'test/support/seccomp/forbid-bpf.c',
  'test/support/programs/insmod.c',
  'test/integration/netns/xdp/support/ethtool.c',
];

export interface LabRun {
  readonly guest: Guest;
  readonly code: number;
  readonly output: string;
  /** By what was asked; absent: it was not. */
  answer(what: string): string | undefined;
}

/** @param environment e.g. PATH with further tools */
export async function runLab(
  kernel: Kernel,
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<LabRun> {
  return runIn(await guestOf(kernel), words, environment);
}

export async function runIn(
  guest: Guest,
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<LabRun> {
  for (const source of SOURCES) {
    copyFileSync(compiled(join(packageRoot(), source)), join(guest.folder, basename(source, '.c')));
  }
  const assignments = Object.entries(environment).map(([name, value]) => `${name}='${value}'`);
  const [script = '', ...rest] = words.map((word) => word.replace('FOLDER', guest.folder));
  const line = [...assignments, 'sh', `test/integration/kernels/lab/${script}`, ...rest];
  const { code, output } = await guest.run(words.slice(0, 2).join(' '), line.join(' '));
  const answers = new Map(
    output.split('\n').map((text): [string, string] => {
      const [what = '', answer = ''] = text.split(/: (.*)/s);
      return [what, answer];
    }),
  );
  return { guest, code, output, answer: (what) => answers.get(what) };
}

/** Without how often, in the order of names: `10.1.1.5:8080>10.1.1.9 10.1.2.5:8080>10.1.1.9`. */
export const kinds = (answer: string | undefined): string =>
  (answer ?? 'not asked').replace(/=\d+/g, '').split(' ').sort().join(' ');
