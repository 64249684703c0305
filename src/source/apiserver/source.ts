// SPDX-License-Identifier: Apache-2.0
// An API server as the agent knows it: problems of all kinds folded into one, and what it waits for.
import type { Problem } from '../../model/problem.ts';
import type { Source, SourceListener } from '../source.ts';
import { writeAnnotated } from './annotated.ts';
import type { CredentialSource } from './auth/credentials.ts';
import {
  type ClusterSettings,
  type ClusterSource,
  type ClusterStatus,
  openCluster,
} from './cluster.ts';
import { type IndependentList, independentList } from './independent/list.ts';
import { missingNode } from './missing-node.ts';
import { foldProblems } from './problems.ts';

/** Watches notice a problem of their server one after the other: reported together, it is reported once. */
const COALESCE_MS = 2_000;

export const clusterSource = (settings: ClusterSettings): Source => new ApiServerSource(settings);

class ApiServerSource implements Source {
  readonly kind = 'cluster';
  readonly location: string;
  readonly #settings: ClusterSettings;
  readonly #started = promised<ClusterSource>();
  #cluster: ClusterSource | undefined;
  #reporting: NodeJS.Timeout | undefined;

  constructor(settings: ClusterSettings) {
    this.#settings = settings;
    this.location = settings.apiServer.servers[0]?.url ?? '';
  }

  start(listener: SourceListener): void {
    this.#cluster = openCluster(this.#settings, {
      onChanges: (changes) => listener.onChanges(changes),
      onSynced: () => listener.onSynced(),
      onNodes: () => listener.onNodes?.(),
      onProblems: () => {
        this.#reporting ??= setTimeout(() => {
          this.#reporting = undefined;
          listener.onProblems(this.problems());
        }, COALESCE_MS);
      },
      onRequest: (request) => listener.onRequest?.(request),
    });
    this.#started.resolve(this.#cluster);
  }

  problems(): readonly Problem[] {
    if (this.#cluster === undefined) return [];
    const { nodeName, apiServer } = this.#settings;
    const status = this.#cluster.status();
    const problems = foldProblems(this.#cluster.problems(), {
      servers: apiServer.servers.map(({ url }) => url),
      credentials: credentialsText(apiServer.credentials),
      kinds: status.watches.length,
    });
    return [...problems, ...missingNode({ ...status, nodeName })];
  }

  locate(): undefined {
    return undefined;
  }

  cluster(): ClusterStatus | undefined {
    return this.#cluster?.status();
  }

  independent(): IndependentList {
    return independentList(this.#settings);
  }

  relist(): void {
    this.#cluster?.relist();
  }

  async post(path: string, object: unknown): Promise<void> {
    const cluster = await this.#started.promise;
    await cluster.post(path, object);
  }

  followNodes(): void {
    void this.#started.promise.then((cluster) => cluster.followNodes());
  }

  async annotateNode(name: string, annotations: Readonly<Record<string, string | null>>) {
    const cluster = await this.#started.promise;
    await cluster.patch(`/api/v1/nodes/${name}`, { metadata: { annotations } });
  }

  async noteAnnotated(isAnnotated: boolean): Promise<void> {
    const { nodeName, runDir, apiServer } = this.#settings;
    const { servers, credentials } = apiServer;
    if (runDir === undefined) return;
    await writeAnnotated(
      runDir,
      isAnnotated ? { node: nodeName, servers, credentials } : undefined,
    );
  }

  close(): void {
    clearTimeout(this.#reporting);
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
