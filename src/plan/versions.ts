// SPDX-License-Identifier: Apache-2.0
// Which version of an object counts. The API server refuses a bad version as a whole, and the one before it stays; so it
// is here, for objects of a folder and for fields that only fairlead refuses. A first version with bad fields counts
// without them: nothing that served is lost. Pure.
import { ANNOTATION_ROWS } from '../model/annotations.ts';
import { annotationField } from '../model/fields.ts';
import { OWN_ANNOTATIONS } from '../model/node/own-annotations.ts';
import type { Projection, Rejection } from '../model/types.ts';

/** Left out, a default takes their place: who is served stays the same, and the rest of the object must go on to follow. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...ANNOTATION_ROWS.filter(({ isMinor }) => isMinor).map(({ name }) => annotationField(name)),
  ...OWN_ANNOTATIONS.map(annotationField),
  'metadata.creationTimestamp',
]);

export interface Versions {
  /** The version that counts after this one: its value, or `keep`: the one that counted before. */
  readonly judge: <T>(key: string, version: Projection<T>, counted: boolean) => Judged<T>;
  readonly forget: (key: string) => void;
}

export type Judged<T> = Projection<T> & { readonly keep: boolean };

/** @param nowMs since the epoch; absent: rejections do not say when the last good version was replaced */
export function createVersions(nowMs?: () => number): Versions {
  /** By object: what is bad about the version that counts, and about a later one. */
  const known = new Map<string, readonly string[]>();
  const refusedSince = new Map<string, string>();
  return {
    judge: (key, version, counted) => {
      const bad = version.rejections.filter(({ field }) => !LEFT_OUT.has(field)).map(textOf);
      const before = known.get(key) ?? [];
      if (counted && bad.some((text) => !before.includes(text))) {
        const since = refusedSince.get(key) ?? timeText(nowMs);
        refusedSince.set(key, since);
        return { value: undefined, rejections: version.rejections.map(keeping(since)), keep: true };
      }
      refusedSince.delete(key);
      if (bad.length === 0) known.delete(key);
      else known.set(key, bad);
      return { ...version, rejections: version.rejections.map(counting), keep: false };
    },
    forget: (key) => {
      known.delete(key);
      refusedSince.delete(key);
    },
  };
}

const timeText = (nowMs: (() => number) | undefined): string =>
  nowMs === undefined ? '' : ` of before ${new Date(nowMs()).toISOString().slice(0, 19)}Z`;

/** As people read it, of a version that counts. */
export const counting = ({ instead, ...rejection }: Rejection): Rejection =>
  instead === undefined ? rejection : { ...rejection, reason: `${rejection.reason}; ${instead}` };

const keeping =
  (since: string) =>
  ({ instead: _, isWarning: __, ...rejection }: Rejection): Rejection => ({
    ...rejection,
    reason: `${rejection.reason}; the last good version${since} keeps serving`,
  });

/** Entries of a list move as others come and go: the same bad entry is no new one. */
const textOf = ({ field, reason }: Rejection): string =>
  `${field.replaceAll(/\[\d+\]/g, '[]')} ${reason}`;
