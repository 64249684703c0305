// SPDX-License-Identifier: Apache-2.0
// Carries a table of connections into a larger one, by the programs of bpf/packet/carry_conn.bpf.c.
import type { BpfObject } from '../../../../../src/sys/native.ts';
import { ConnTable, openTable, suffixOf } from './conn-table.ts';
import { SECRET, UDP_NEW } from './operation.ts';

const AT = { now: 8, udpNew: 12, round: 104, bucket: 108, counts: 112, dropped: 124 } as const;
const DATA = new Uint8Array(64);

export interface Round {
  readonly new: number;
  readonly again: number;
  readonly not: number;
  readonly dropped: number;
}

export class Carrier {
  readonly from: ConnTable;
  readonly object: BpfObject;
  /** The larger table. */
  readonly to: ConnTable;
  readonly #buckets: readonly [from: number, to: number];
  #round = 0;

  constructor(from: ConnTable, buckets: readonly [from: number, to: number]) {
    this.from = from;
    this.#buckets = buckets;
    this.object = openTable('carry_conn', buckets[1]);
    for (const suffix of [4, 6]) {
      for (const [map, former] of [
        ['client', 'client'],
        ['conn', 'conn'],
        ['conn_traf', 'traf'],
      ]) {
        const table = from.object.map(`fl_${map}${suffix}`);
        this.object.setMaxEntries(`fl_from_${former}${suffix}`, table.info.maxEntries);
        this.object.reuseMap(`fl_from_${former}${suffix}`, table);
      }
    }
    this.object.load();
    this.to = new ConnTable(from.family, buckets[1], this.object);
  }

  close(): void {
    this.to.close();
    this.object.close();
  }

  /** Everything that is in the other table now, and nothing else of what an earlier round has carried. */
  carry(now: number): Round {
    const [from, to] = this.#buckets;
    const view = new DataView(this.object.map('fl_carrying').mmap());
    new Uint8Array(view.buffer, 0, 128).fill(0);
    this.#round += 1;
    view.setBigUint64(0, SECRET, true);
    view.setUint32(AT.now, now, true);
    view.setUint32(AT.udpNew, UDP_NEW, true);
    view.setUint32(AT.round, this.#round, true);
    this.#run('fl_carry', from);
    view.setUint32(AT.bucket, 0, true);
    this.#run('fl_drop', to);
    const count = (at: number) => view.getUint32(AT.counts + 4 * at, true);
    return {
      new: count(0),
      again: count(1),
      not: count(2),
      dropped: view.getUint32(AT.dropped, true),
    };
  }

  #run(name: string, repeat: number): void {
    const program = this.object.program(`${name}${suffixOf(this.from.family)}`);
    program.testRun({ dataIn: DATA, repeat });
    program.close();
  }
}
