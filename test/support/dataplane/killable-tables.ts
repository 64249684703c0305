// SPDX-License-Identifier: Apache-2.0
// Tables that call back before every single write: each entry of a batch, each store to shared memory. If the
// callback throws, that write and all later ones do not happen, as if the process had been killed there.
import { vi } from 'vitest';
import type { TableSync } from '../../../src/engines/bpf/state/table-sync.ts';
import type { ArrayTable, HashTable, Tables } from '../../../src/engines/bpf/state/tables.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { applyAll } from './apply-all.ts';

class Killed extends Error {}

export interface Killable {
  readonly tables: Tables;
  /** The nth write from now on is the first that never happens. */
  killAt(nth: number): void;
  /** Starts another process: writes happen again. */
  revive(): void;
}

const watched = (view: DataView, before: () => void): DataView =>
  Object.assign(new DataView(view.buffer, view.byteOffset, view.byteLength), {
    setUint8(at: number, value: number): void {
      before();
      view.setUint8(at, value);
    },
    setUint16(at: number, value: number, isLittle?: boolean): void {
      before();
      view.setUint16(at, value, isLittle);
    },
    setUint32(at: number, value: number, isLittle?: boolean): void {
      before();
      view.setUint32(at, value, isLittle);
    },
    setBigUint64(at: number, value: bigint, isLittle?: boolean): void {
      before();
      view.setBigUint64(at, value, isLittle);
    },
  });

export function killableTables(inner: Tables): Killable {
  let left = Number.POSITIVE_INFINITY;
  const before = (): void => {
    if (left <= 1) throw new Killed();
    left--;
  };
  const array = (table: ArrayTable): ArrayTable => ({
    ...table,
    view: (index) => watched(table.view(index), before),
  });
  const hash = (table: HashTable): HashTable => ({
    ...table,
    put: (keys, values) =>
      keys.flatMap((key, index) => {
        before();
        const value = values[index] ?? new Uint8Array();
        return table.put([key], [value]).map((refusal) => ({ ...refusal, index }));
      }),
    delete: (keys) =>
      keys.flatMap((key, index) => {
        before();
        return table.delete([key]).map((refusal) => ({ ...refusal, index }));
      }),
  });
  const store = Atomics.store;
  // Words of a frontend are stored one by one, past the view.
  const stored = vi.spyOn(Atomics, 'store');
  const watchStores = (): void => {
    stored.mockImplementation(((words: BigUint64Array, at: number, value: bigint) => {
      before();
      return store(words, at, value);
    }) as typeof Atomics.store);
  };
  return {
    tables: {
      frontend: { IPv4: hash(inner.frontend.IPv4), IPv6: hash(inner.frontend.IPv6) },
      frontendRecord: array(inner.frontendRecord),
      backend: { IPv4: array(inner.backend.IPv4), IPv6: array(inner.backend.IPv6) },
      slotBlock: array(inner.slotBlock),
      serviceName: hash(inner.serviceName),
      frontendStat: array(inner.frontendStat),
      backendStat: array(inner.backendStat),
      backendFlows: array(inner.backendFlows),
      nodeAddress: { IPv4: hash(inner.nodeAddress.IPv4), IPv6: hash(inner.nodeAddress.IPv6) },
      sourceRange: hash(inner.sourceRange),
      notService: array(inner.notService),
      runtime: array(inner.runtime),
    },
    killAt(nth) {
      left = nth;
      watchStores();
    },
    revive() {
      left = Number.POSITIVE_INFINITY;
      stored.mockRestore();
    },
  };
}

/** Applies the plan by an agent that is killed at its nth write. @returns true if it needs fewer */
export async function applyKilledAt(
  nth: number,
  killable: Killable,
  dying: TableSync,
  plan: Plan,
): Promise<boolean> {
  killable.killAt(nth);
  try {
    applyAll(dying, plan);
    await dying.releaseRetired();
    return true;
  } catch (error) {
    if (!(error instanceof Killed)) throw error;
    return false;
  } finally {
    killable.revive();
  }
}
