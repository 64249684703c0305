// SPDX-License-Identifier: Apache-2.0
// An object of all pinned maps, as they are and with other layouts: each struct begins with a field that is new, and some
// fields are wider.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../native/support/resources.ts';

const sources = fileURLToPath(new URL('../../../../bpf', import.meta.url));
const MAPS = `#include "common/maps.h"
#include "socket/maps.h"
#include "packet/conn/maps.h"
#include "packet/maps.h"
#include "packet/uplink/sent_to.h"
char LICENSE[] SEC("license") = "Dual BSD/GPL";
`;
/** Their first bytes mean something to the kernel, or to the alignment of what they are part of. */
const KEPT = ['source_range_key', 'traffic_rule'];

/** The object's bytes. */
export function mapsObject(layout: 'present' | 'other'): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-layouts-'));
  try {
    cpSync(sources, folder, { recursive: true });
    if (layout === 'other')
      for (const path of ['common', 'packet', 'packet/conn']) change(join(folder, path));
    writeFileSync(join(folder, 'maps.bpf.c'), MAPS);
    writeFileSync(
      join(folder, 'Makefile'),
      `${readFileSync(join(folder, 'Makefile'), 'utf8')}\n$(BUILD)/maps.bpf.o: maps.bpf.c\n\t$(compile)\n`,
    );
    run('make', '-s', '-C', folder, `BUILD=${folder}`, `${folder}/maps.bpf.o`);
    return readFileSync(join(folder, 'maps.bpf.o'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function change(folder: string): void {
  const path = join(folder, 'types.h');
  const changed = readFileSync(path, 'utf8')
    .replaceAll(/^struct (\w+) \{$/gm, (line, name: string) =>
      KEPT.includes(name) ? line : `${line}\n\t__u64 added;`,
    )
    .replaceAll('__u16 generation;', '__u32 generation;')
    .replaceAll(/^_Static_assert.*$/gm, '');
  writeFileSync(path, changed);
}
