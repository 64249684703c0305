// SPDX-License-Identifier: Apache-2.0
// What the agent asks of any source of API objects, and the two there are: a folder of manifests and an API
// server. A source does nothing before it is started.

import type { ObjectChange, ObjectRef } from '../model/types.ts';
import type { CredentialSource } from '../source/apiserver/auth/credentials.ts';
import {
  type ClusterSettings,
  type ClusterSource,
  type ClusterStatus,
  openCluster,
} from '../source/apiserver/cluster.ts';
import type { RequestFacts } from '../source/apiserver/counters.ts';
import { foldProblems } from '../source/apiserver/problems.ts';
import { type ManifestSource, openManifests } from '../source/manifests/manifests.ts';

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
  /** Once: from now on the listener hears what the source has. */
  start(listener: SourceListener): void;
  problems(): readonly SourceProblem[];
  /** Where a field of a delivered object stands, if the source has places. */
  locate(
    ref: ObjectRef,
    field: string,
  ): { readonly file: string; readonly line: number } | undefined;
  /** What an API server is asked and how it answers; absent for a folder. */
  cluster?(): ClusterStatus | undefined;
  /** Creates an object at the source, as soon as it is started; absent if it takes none. */
  post?(path: string, object: unknown): Promise<void>;
  close(): void;
}

export function manifestsSource(dir: string): Source {
  let manifests: ManifestSource | undefined;
  return {
    kind: 'manifests',
    location: dir,
    start: (listener) => {
      manifests = openManifests(dir, listener);
    },
    problems: () => manifests?.problems() ?? [],
    locate: (ref, field) => manifests?.locate(ref, field),
    close: () => manifests?.close(),
  };
}

/** Kinds meet a problem of their server one after the other: told together, it is told once. */
const SETTLE_MS = 2_000;

export const clusterSource = (settings: ClusterSettings): Source => new ApiServerSource(settings);

class ApiServerSource implements Source {
  readonly kind = 'cluster';
  readonly location: string;
  readonly #settings: ClusterSettings;
  readonly #started = promised<ClusterSource>();
  #cluster: ClusterSource | undefined;
  #telling: NodeJS.Timeout | undefined;

  constructor(settings: ClusterSettings) {
    this.#settings = settings;
    this.location = settings.apiServer.servers[0]?.url ?? '';
  }

  start(listener: SourceListener): void {
    this.#cluster = openCluster(this.#settings, {
      onChanges: (changes) => listener.onChanges(changes),
      onSynced: () => listener.onSynced(),
      onProblems: () => {
        this.#telling ??= setTimeout(() => {
          this.#telling = undefined;
          listener.onProblems(this.problems());
        }, SETTLE_MS);
      },
      onRequest: (request) => listener.onRequest?.(request),
    });
    this.#started.resolve(this.#cluster);
  }

  problems(): readonly SourceProblem[] {
    if (this.#cluster === undefined) return [];
    const { servers, credentials } = this.#settings.apiServer;
    return foldProblems(this.#cluster.problems(), {
      servers: servers.map(({ url }) => url),
      credentials: credentialsText(credentials),
      kinds: this.#cluster.status().watches.length,
    });
  }

  locate(): undefined {
    return undefined;
  }

  cluster(): ClusterStatus | undefined {
    return this.#cluster?.status();
  }

  async post(path: string, object: unknown): Promise<void> {
    const cluster = await this.#started.promise;
    await cluster.post(path, object);
  }

  close(): void {
    clearTimeout(this.#telling);
    void this.#cluster?.close();
  }
}

function promised<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((fulfil) => {
    resolve = fulfil;
  });
  return { promise, resolve };
}

function credentialsText(source: CredentialSource): string {
  if (source.kind === 'kubeconfig') return source.path;
  return source.kind === 'service-account' ? source.dir : 'no file (there are no credentials)';
}
