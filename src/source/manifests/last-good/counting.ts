// SPDX-License-Identifier: Apache-2.0
// Which version of an object counts: the latest that was delivered, or the last good one, if the plan has refused those
// after it. Only objects whose latest version is refused, or not judged yet, are remembered here. Pure.
import type { JsonRecord } from '../../../lib/json.ts';
import { refText } from '../../../model/object-ref.ts';
import type { ObjectChange } from '../../../model/types.ts';

/** An object, or its JSON. */
export type Counted = JsonRecord | string;

export interface Counting {
  /** Called for each change, before the next one. @param before the version delivered before it */
  delivered(key: string, before: JsonRecord | undefined): void;
  /** In the order of delivery. @param refused those of the changes that do not count */
  judged(changes: readonly ObjectChange[], refused: ReadonlySet<ObjectChange>): void;
  /** The version that counts, if `latest` was delivered last; undefined: none counts yet. */
  of(key: string, latest: JsonRecord): Counted | undefined;
}

interface Open {
  last: Counted | undefined;
  unjudged: number;
}

export function createCounting(): Counting {
  const open = new Map<string, Open>();

  const judgeOne = (change: ObjectChange, isRefused: boolean): void => {
    const key = refText(change.ref);
    const entry = open.get(key);
    if (entry === undefined) return;
    entry.unjudged -= 1;
    if (isRefused) entry.last = detached(entry.last);
    else if (entry.unjudged === 0) open.delete(key);
    else entry.last = change.type === 'put' ? (change.object as JsonRecord) : undefined;
  };

  return {
    delivered(key, before) {
      const entry = open.get(key);
      if (entry === undefined) open.set(key, { last: before, unjudged: 1 });
      else entry.unjudged += 1;
    },
    judged(changes, refused) {
      for (const change of changes) judgeOne(change, refused.has(change));
    },
    of(key, latest) {
      const entry = open.get(key);
      return entry === undefined ? latest : entry.last;
    },
  };
}

/** Strings of an object may be parts of its file's text, which would stay in memory with them. */
const detached = (counted: Counted | undefined): string | undefined =>
  counted === undefined || typeof counted === 'string' ? counted : JSON.stringify(counted);
