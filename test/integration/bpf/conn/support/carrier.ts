// SPDX-License-Identifier: Apache-2.0
// Carries a table of connections into a larger one, by the programs of bpf/test/conn_carry.bpf.c.
import type { BpfObject } from '../../../../../src/sys/native.ts';
import { ConnTable, openTable, SLOTS, suffixOf } from './conn-table.ts';
import { SECRET, UDP_NEW } from './operation.ts';

const AT = { now: 8, udpNew: 12, round: 16, bucket: 20, counts: 24, dropped: 36 } as const;
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
    this.object = openTable('conn_carry', buckets[1]);
    for (const suffix of [4, 6]) {
      this.object.setMaxEntries(`fl_from_conn${suffix}`, buckets[0] * SLOTS);
      this.object.setMaxEntries(`fl_from_client${suffix}`, buckets[0]);
      for (const map of ['conn', 'client']) {
        this.object.reuseMap(`fl_from_${map}${suffix}`, from.object.map(`fl_${map}${suffix}`));
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
    const view = new DataView(this.object.map('carryings').mmap());
    new Uint8Array(view.buffer, 0, 64).fill(0);
    this.#round += 1;
    view.setBigUint64(0, SECRET, true);
    view.setUint32(AT.now, now, true);
    view.setUint32(AT.udpNew, UDP_NEW, true);
    view.setUint32(AT.round, this.#round, true);
    this.#run('carry', from);
    view.setUint32(AT.bucket, 0, true);
    this.#run('drop', to);
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
