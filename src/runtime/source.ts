// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of any source of API objects; a folder of manifests is one. Floor 5.
import type { ObjectChange, ObjectRef } from '../model/types.ts';
import { openManifests } from '../source/manifests.ts';

export interface SourceProblem {
  readonly file: string;
  readonly line?: number;
  readonly reason: string;
  readonly object?: ObjectRef;
}

export interface SourceListener {
  onChanges(changes: readonly ObjectChange[]): void;
  /** Complete lists have been delivered once. */
  onSynced(): void;
  onProblems(problems: readonly SourceProblem[]): void;
}

export interface Source {
  readonly kind: string;
  readonly location: string;
  problems(): readonly SourceProblem[];
  /** Where a field of a delivered object stands, if the source has places. */
  locate(
    ref: ObjectRef,
    field: string,
  ): { readonly file: string; readonly line: number } | undefined;
  close(): void;
}

export type OpenSource = (listener: SourceListener) => Source;

export function manifestsSource(dir: string): OpenSource {
  return (listener) => {
    const manifests = openManifests(dir, listener);
    return {
      kind: 'manifests',
      location: dir,
      problems: () => manifests.problems(),
      locate: (ref, field) => manifests.locate(ref, field),
      close: () => manifests.close(),
    };
  };
}
