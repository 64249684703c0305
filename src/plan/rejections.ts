// SPDX-License-Identifier: Apache-2.0
// All rejections of a plan in one order that does not depend on arrival: kind, namespace, name, then as found.
import { compareText } from '../lib/names.ts';
import type { ObjectRef, Rejection } from '../model/types.ts';

export interface RejectionBook {
  /** Replaces the rejections of one object by one step: its projection, or the build of its plan. */
  readonly set: (source: 'model' | 'plan', ref: ObjectRef, list: readonly Rejection[]) => void;
  /** The same list (===) until something changes. */
  readonly list: () => readonly Rejection[];
}

const compareRefs = (a: ObjectRef, b: ObjectRef): number =>
  compareText(a.kind, b.kind) ||
  compareText(a.namespace, b.namespace) ||
  compareText(a.name, b.name);

/** Projection's rejections of an object come before those of the build. */
export function orderRejections(lists: Iterable<readonly Rejection[]>): readonly Rejection[] {
  return [...lists].flat().sort((a, b) => compareRefs(a.object, b.object));
}

export function createRejectionBook(): RejectionBook {
  const books = {
    model: new Map<string, readonly Rejection[]>(),
    plan: new Map<string, readonly Rejection[]>(),
  };
  let listed: readonly Rejection[] | undefined = [];
  return {
    set: (source, { kind, namespace, name }, list) => {
      const book = books[source];
      if (list.length === 0 && book.size === 0) return;
      const key = `${kind} ${namespace}/${name}`;
      if (list.length === 0 ? book.delete(key) : book.set(key, list)) listed = undefined;
    },
    list: () => {
      listed ??= orderRejections([...books.model.values(), ...books.plan.values()]);
      return listed;
    },
  };
}
