// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of any source of API objects; a folder of manifests is one.

import type { ObjectChange, ObjectRef } from '../model/types.ts';
import type { CredentialSource } from '../source/apiserver/auth/credentials.ts';
import {
  type ClusterSettings,
  type ClusterStatus,
  openCluster,
} from '../source/apiserver/cluster.ts';
import type { RequestFacts } from '../source/apiserver/counters.ts';
import { foldProblems } from '../source/apiserver/problems.ts';
import { openManifests } from '../source/manifests/manifests.ts';

export interface SourceProblem {
  /** Absent if the source has no files. */
  readonly file?: string;
  readonly line?: number;
  readonly reason: string;
  readonly object?: ObjectRef;
  /** Nothing is rejected. */
  readonly isWarning?: boolean;
  /** Of a cluster: the kinds of objects that cannot be followed, or `all`. */
  readonly kinds?: string;
}

export interface SourceListener {
  onChanges(changes: readonly ObjectChange[]): void;
  /** Complete lists have been delivered once. */
  onSynced(): void;
  onProblems(problems: readonly SourceProblem[]): void;
  /** Every request to an API server; a folder makes none. */
  onRequest?(request: RequestFacts): void;
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

/** Kinds meet a problem of their server one after the other: told together, it is told once. */
const SETTLE_MS = 2_000;

export function clusterSource(settings: ClusterSettings): OpenSource {
  return (listener) => {
    let telling: NodeJS.Timeout | undefined;
    const tellSoon = (): void => {
      telling ??= setTimeout(() => {
        telling = undefined;
        listener.onProblems(problems());
      }, SETTLE_MS);
    };
    const cluster = openCluster(settings, {
      onChanges: (changes) => listener.onChanges(changes),
      onSynced: () => listener.onSynced(),
      onProblems: tellSoon,
      onRequest: (request) => listener.onRequest?.(request),
    });
    const problems = (): readonly SourceProblem[] => {
      const { servers, credentials } = settings.apiServer;
      return foldProblems(cluster.problems(), {
        servers: servers.map(({ url }) => url),
        credentials: credentialsText(credentials),
        kinds: cluster.status().watches.length,
      });
    };
    return {
      kind: 'cluster',
      location: settings.apiServer.servers[0]?.url ?? '',
      problems,
      locate: () => undefined,
      cluster: () => cluster.status(),
      post: (path, object) => cluster.post(path, object),
      close: () => {
        clearTimeout(telling);
        void cluster.close();
      },
    };
  };
}

function credentialsText(source: CredentialSource): string {
  if (source.kind === 'kubeconfig') return source.path;
  return source.kind === 'service-account' ? source.dir : 'no file (there are no credentials)';
}
