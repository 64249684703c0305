// SPDX-License-Identifier: Apache-2.0
// The sets of one service port: immutable runs of slots, shared by all frontends with equal content.
// Floor 3a.
import type { Scope } from '../../plan/types.ts';
import { EMPTY_SET, type SetRef, SLOTS_PER_LINE } from './layout.ts';
import { type Ledger, linesOf, type SetRecord } from './ledger.ts';
import type { RenderedPort } from './render.ts';
import { TableFull, type Taking } from './taking.ts';

export function ensureSets(
  taking: Taking,
  rendered: RenderedPort,
): Readonly<Record<Scope, SetRecord | undefined>> {
  const { record } = taking;
  const used = new Set(rendered.frontends.flatMap((f) => [f.internal, f.external]));
  // Ascending: bpf/select.h finds a remembered backend (affinity) in its set by binary search.
  const idsOf = (scope: Scope): readonly number[] =>
    used.has(scope)
      ? rendered.sets[scope].map((key) => record.backends.get(key)?.id ?? 0).sort((a, b) => a - b)
      : [];
  const cluster = ensureSet(taking, idsOf('cluster'));
  return { cluster, local: ensureSet(taking, idsOf('local')) };
}

/** Equal content is the same set; the empty set takes no line. */
function ensureSet(taking: Taking, members: readonly number[]): SetRecord | undefined {
  const { ledger, record, undos } = taking;
  if (members.length === 0) return undefined;
  for (const set of record.sets) {
    if (set.isDamaged !== true && isEqual(set.members, members)) return set;
  }
  const lines = linesOf(members);
  const first = ledger.lines.take(lines);
  if (first === undefined) {
    throw new TableFull(ledger.tables.setLine.name, ledger.lines.capacity, 'set-lines');
  }
  const { setLine } = ledger.tables;
  const at = setLine.bytes.byteOffset + first * setLine.elementSize;
  const slots = new Uint32Array(setLine.bytes.buffer, at, lines * SLOTS_PER_LINE);
  const set: SetRecord = { line: first, generation: nextGeneration(ledger), members };
  slots.fill(0);
  slots.set(members);
  record.sets.add(set);
  undos.push(() => {
    record.sets.delete(set);
    ledger.lines.give(first, lines);
  });
  return set;
}

/** Tells one use of a run of lines from the next, for people and for checks; wraps at 256. */
function nextGeneration(ledger: Ledger): number {
  ledger.setGeneration = (ledger.setGeneration + 1) & 0xff;
  return ledger.setGeneration;
}

function isEqual(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index]);
}

export const refOf = (set: SetRecord | undefined): SetRef =>
  set === undefined
    ? EMPTY_SET
    : { line: set.line, slots: set.members.length, generation: set.generation };
