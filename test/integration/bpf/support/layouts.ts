// SPDX-License-Identifier: Apache-2.0
// An object of all pinned maps, as they are and with other layouts: each struct begins with a field that is new, and some
// fields are wider; or the table of connections is as it was before.
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
export function mapsObject(layout: 'present' | 'former' | 'other'): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-layouts-'));
  try {
    cpSync(sources, folder, { recursive: true });
    if (layout === 'other') for (const path of ['common', 'packet']) change(join(folder, path));
    if (layout === 'former') makeFormer(join(folder, 'packet/conn/maps.h'));
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

/** What the version of the table before this one had: struct traffic beside each record. */
function makeFormer(path: string): void {
  const text = readFileSync(path, 'utf8');
  const former = text.replaceAll(/(fl_conn_traf[46], )conn_traffic/g, '$1traffic');
  if (former === text) throw new Error('no maps of struct conn_traffic');
  writeFileSync(path, former);
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
