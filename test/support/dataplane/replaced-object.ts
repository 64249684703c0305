// SPDX-License-Identifier: Apache-2.0
// A kernel that lacks something: agents of this process get the objects of the build but for one, in whose place is an object
// of bpf/test that ends as the product's does on such a kernel.
import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { bpfObjectPath, packageRoot } from '../../../src/sys/package.ts';

/** Returns what undoes it. @param name `packet.bpf.o` @param other `refused.bpf.o` */
export function replaceObject(name: string, other: string): () => void {
  const built = dirname(bpfObjectPath(name));
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-refused-'));
  for (const each of readdirSync(built)) copyFileSync(join(built, each), join(folder, each));
  copyFileSync(join(packageRoot(), 'build/bpf-test', other), join(folder, name));
  process.env['FAIRLEAD_BPF_DIR'] = folder;
  return () => {
    delete process.env['FAIRLEAD_BPF_DIR'];
    rmSync(folder, { recursive: true, force: true });
  };
}
