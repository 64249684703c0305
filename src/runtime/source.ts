// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of any source of API objects; a folder of manifests is one. Floor 5.

import { type ClusterSettings, type ClusterStatus, openCluster } from '../kube/cluster.ts';
import type { ObjectChange, ObjectRef } from '../model/types.ts';
import { openManifests } from '../source/manifests.ts';

export interface SourceProblem {
  /** Absent if the source has no files. */
  readonly file?: string;
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
  /** What an API server is asked and how it answers; absent for a folder. */
  cluster?(): ClusterStatus;
  /** Creates an object at the source; absent if it takes none. */
  post?(path: string, object: unknown): Promise<void>;
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

export function clusterSource(settings: ClusterSettings): OpenSource {
  return (listener) => {
    const cluster = openCluster(settings, {
      onChanges: (changes) => listener.onChanges(changes),
      onSynced: () => listener.onSynced(),
      onProblems: () => listener.onProblems(problems()),
    });
    const problems = (): readonly SourceProblem[] =>
      cluster.problems().map(({ kind, reason }) => ({ reason: `${kind} watch: ${reason}` }));
    return {
      kind: 'cluster',
      location: settings.apiServer.servers[0]?.url ?? '',
      problems,
      locate: () => undefined,
      cluster: () => cluster.status(),
      post: (path, object) => cluster.post(path, object),
      close: () => void cluster.close(),
    };
  };
}
