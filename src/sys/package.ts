// SPDX-License-Identifier: Apache-2.0
// Locates the files of this program, in a checkout, an image or an installed package.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The directory of package.json. */
export function packageRoot(from = dirname(fileURLToPath(import.meta.url))): string {
  if (existsSync(join(from, 'package.json'))) return from;
  const parent = dirname(from);
  if (parent === from) throw new Error('package.json was not found above the program');
  return packageRoot(parent);
}

export function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as {
    version: string;
  };
  return version;
}

/** A compiled BPF object, e.g. `sock.bpf.o`; FAIRLEAD_BPF_DIR names another folder. */
export function bpfObjectPath(name: string): string {
  return join(process.env['FAIRLEAD_BPF_DIR'] ?? join(packageRoot(), 'build', 'bpf'), name);
}
