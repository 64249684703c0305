// SPDX-License-Identifier: Apache-2.0
// A cluster as a source of API objects, live: Services, EndpointSlices, this node's Node, ServiceCIDRs. Like
// the folder source it never takes "cannot read" for "is gone".
import { reasonOf } from '../../errors.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Logger } from '../../log.ts';
import type { Kind, ObjectChange } from '../../model/types.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import { openCredentials } from './auth/credentials.ts';
import type { Counters, RequestFacts } from './counters.ts';
import { createIntern } from './decode/intern.ts';
import {
  type KindSpec,
  otherNodes,
  ownNode,
  SERVICE_CIDRS,
  SERVICES,
  SLICES,
  type WatchName,
} from './kinds.ts';
import { missingNode } from './missing-node.ts';
import type { ApiServerChoice, Winner } from './transport/api-server.ts';
import { ClusterIdentity } from './transport/identity.ts';
import { NodeCount } from './transport/node-count.ts';
import { ApiServerEndpoints, writeRemembered } from './transport/remembered.ts';
import { IN_CLUSTER_NAME, Servers } from './transport/servers.ts';
import { createTransport } from './transport/transport.ts';
import { Delivery } from './watch/delivery.ts';
import { InitialSync } from './watch/initial-sync.ts';
import { Reflector, type ReflectorStatus } from './watch/reflector.ts';
import type { Suspicion } from './watch/store.ts';

export interface ClusterSettings {
  readonly nodeName: string;
  /** From findApiServer(). */
  readonly apiServer: ApiServerChoice;
  /** Where endpoints found in the cluster are remembered; undefined = nowhere. */
  readonly runDir: string | undefined;
  readonly watchesServiceCidrs: boolean;
  /** `fairlead/0.1.0 (linux/amd64)`: who asks, in the API server's audit log. */
  readonly userAgent: string;
  readonly log: Pick<Logger, 'info' | 'warn' | 'debug'>;
  readonly clock?: Clock;
}

export interface ClusterProblem {
  readonly kind: WatchName;
  readonly reason: string;
}

export interface ClusterHandlers {
  /** Never called with nothing. If it throws, the objects it was given are offered again. */
  onChanges(changes: readonly ObjectChange[]): void;
  /**
   * Once: complete lists of Services and EndpointSlices were delivered, and this node's Node too, or it was
   * waited for long enough.
   */
  onSynced(): void;
  /** Once, after followNodes(): every other Node was delivered. */
  onNodes?(): void;
  /** All problems as they are now, whenever they differ from the last call's. */
  onProblems(problems: readonly ClusterProblem[]): void;
  /** Every request to an API server. */
  onRequest?(request: RequestFacts): void;
  /** A list was not believed; its removals wait for a second list. See Store. */
  onSuspiciousEmpty?(kind: Kind, suspicion: Suspicion): void;
}

export interface WatchReport extends ReflectorStatus {
  readonly kind: WatchName;
  readonly counters: Readonly<Counters>;
}

export interface ClusterStatus {
  readonly server: string;
  readonly winner: Winner;
  readonly why: string;
  /** Every URL that may be used, in order. */
  readonly servers: readonly string[];
  readonly rotations: number;
  readonly isSynced: boolean;
  readonly watches: readonly WatchReport[];
  readonly handlerErrors: number;
  /** Changes the handler threw at, which will be offered again. */
  readonly waitingChanges: number;
  /** Requests answered 401 and retried with credentials read anew. */
  readonly unauthorizedRetries: number;
  readonly problems: readonly ClusterProblem[];
}

/** Follows the cluster until closed. Never throws: what is wrong shows as a problem, and is retried. */
export function openCluster(settings: ClusterSettings, handlers: ClusterHandlers): ClusterSource {
  return new ClusterSource(settings, handlers);
}

export class ClusterSource {
  readonly #settings: ClusterSettings;
  readonly #handlers: ClusterHandlers;
  readonly #servers: Servers;
  readonly #endpoints = new ApiServerEndpoints();
  readonly #transport;
  readonly #delivery: Delivery;
  readonly #initialSync: InitialSync;
  readonly #nodeCount: NodeCount;
  readonly #identity: ClusterIdentity;
  readonly #reflectors: Map<WatchName, Reflector>;
  #isClosed = false;

  constructor(settings: ClusterSettings, handlers: ClusterHandlers) {
    const { apiServer, userAgent, log, clock = SYSTEM_CLOCK } = settings;
    this.#settings = settings;
    this.#handlers = handlers;
    this.#servers = new Servers(apiServer.servers);
    const credentials = openCredentials(apiServer.credentials);
    this.#transport = createTransport({
      ...{ servers: this.#servers, credentials, clock, userAgent },
      onRequest: (request) => this.#call('onRequest', () => handlers.onRequest?.(request)),
    });
    this.#delivery = new Delivery({ onChanges: (changes) => this.#onChanges(changes), clock, log });
    this.#nodeCount = new NodeCount({ transport: this.#transport, clock, log });
    this.#identity = new ClusterIdentity({
      ...{ transport: this.#transport, clock, log },
      versions: () => this.#all().map((reflector) => reflector.status().resourceVersion),
      onReplaced: () => {
        for (const reflector of this.#all()) reflector.forceRelist();
      },
      onAnswer: () => {
        for (const reflector of this.#all()) reflector.resume();
      },
      spreadMs: () => this.#nodeCount.spreadMs,
    });
    this.#initialSync = new InitialSync(clock, () => {
      this.#nodeCount.start();
      this.#call('onSynced', () => handlers.onSynced());
    });
    const kinds = [SERVICES, SLICES, ownNode(settings.nodeName)];
    if (settings.watchesServiceCidrs) kinds.push(SERVICE_CIDRS);
    this.#reflectors = new Map(
      kinds.map((spec) => [nameOf(spec), this.#reflector(spec, clock)] as const),
    );
    log.info(
      { server: this.#servers.current().url, why: apiServer.why },
      'watching the API server',
    );
    for (const reflector of this.#all()) reflector.start();
  }

  status(): ClusterStatus {
    const { winner, why } = this.#settings.apiServer;
    return {
      server: this.#servers.current().url,
      winner,
      why,
      servers: this.#servers.all().map(({ url }) => url),
      rotations: this.#servers.rotations,
      isSynced: this.#initialSync.isComplete,
      watches: [...this.#reflectors].map(([kind, reflector]) => ({
        kind,
        ...reflector.status(),
        counters: reflector.counters,
      })),
      handlerErrors: this.#delivery.errors,
      waitingChanges: this.#delivery.waiting,
      unauthorizedRetries: this.#transport.unauthorized(),
      problems: this.problems(),
    };
  }

  problems(): readonly ClusterProblem[] {
    return [...this.#reflectors].flatMap(([kind, reflector]) => {
      const { problem } = reflector.status();
      return problem === undefined ? [] : [{ kind, reason: problem }];
    });
  }

  /** What was delivered was found to be wrong. */
  relist(): void {
    for (const reflector of this.#all()) reflector.relist();
  }

  /** Creates one object, e.g. an Event at `/apis/events.k8s.io/v1/namespaces/NS/events`. */
  post(path: string, object: unknown): Promise<void> {
    return this.#transport.post(path, object);
  }

  /** Changes one object by a JSON merge patch. */
  patch(path: string, patch: unknown): Promise<void> {
    return this.#transport.patch(path, patch);
  }

  /** From now on other Nodes are delivered, too. Idempotent. */
  followNodes(): void {
    if (this.#isClosed || this.#reflectors.has('OtherNodes')) return;
    const { nodeName, clock = SYSTEM_CLOCK } = this.#settings;
    const reflector = this.#reflector(otherNodes(nodeName), clock);
    this.#reflectors.set('OtherNodes', reflector);
    reflector.start();
  }

  /** Nothing is called after it; resolves when no connection is left. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#initialSync.close();
    this.#identity.close();
    this.#nodeCount.close();
    this.#delivery.close();
    await Promise.all(this.#all().map((reflector) => reflector.stop()));
    await this.#transport.close();
  }

  #all(): readonly Reflector[] {
    return [...this.#reflectors.values()];
  }

  #reflector(spec: KindSpec, clock: Clock): Reflector {
    const { kind } = spec;
    const name = nameOf(spec);
    return new Reflector({
      spec,
      clock,
      log: this.#settings.log,
      transport: this.#transport,
      delivery: this.#delivery,
      intern: this.#intern,
      identity: this.#identity,
      spreadMs: () => this.#nodeCount.spreadMs,
      onSynced: () => this.#onListed(name),
      onSuspicion: (suspicion) => this.#onSuspicion(kind, suspicion),
      onProblem: () => this.#call('onProblems', () => this.#handlers.onProblems(this.problems())),
    });
  }

  #onListed(kind: WatchName): void {
    if (kind === 'OtherNodes') {
      this.#call('onNodes', () => this.#handlers.onNodes?.());
      return;
    }
    this.#initialSync.listed(kind);
    if (kind !== 'Node' || this.#isClosed) return;
    const { nodeName, log } = this.#settings;
    for (const { reason } of missingNode({ ...this.status(), nodeName })) log.warn(reason);
  }

  /** One for all kinds: Nodes and slices name the same zones. */
  readonly #intern = createIntern();

  #onChanges(changes: readonly ObjectChange[]): void {
    if (this.#isClosed) return;
    this.#identity.take(changes);
    this.#handlers.onChanges(changes);
    const { nodeName } = this.#settings;
    const isOwn = ({ type, ref }: ObjectChange): boolean =>
      type === 'put' && ref.kind === 'Node' && ref.name === nodeName;
    if (changes.some(isOwn)) {
      this.#initialSync.nodeSeen();
    }
    const urls = this.#endpoints.take(changes);
    if (urls !== undefined) this.#remember(urls);
  }

  /** Next to an http server nothing is known of whom to trust: then nothing is learnt. */
  #remember(urls: readonly string[]): void {
    const { apiServer, runDir, log } = this.#settings;
    if (!apiServer.servers.every(({ url }) => url.startsWith('https:'))) return;
    this.#servers.learn(urls.map((url) => ({ url, tlsName: IN_CLUSTER_NAME })));
    if (runDir === undefined) return;
    writeRemembered(runDir, urls).catch((error: unknown) =>
      log.warn({ runDir, reason: reasonOf(error) }, 'API server endpoints not remembered'),
    );
  }

  #onSuspicion(kind: Kind, suspicion: Suspicion): void {
    this.#settings.log.warn(
      { kind, ...suspicion },
      'suspicious list: removals are held until a second list confirms them',
    );
    this.#call('onSuspiciousEmpty', () => this.#handlers.onSuspiciousEmpty?.(kind, suspicion));
  }

  /** A handler's error is its own: it must not look like one of the connection. */
  #call(handler: string, action: () => void): void {
    if (this.#isClosed) return;
    try {
      action();
    } catch (error) {
      this.#settings.log.warn({ handler, reason: reasonOf(error) }, 'handler failed');
    }
  }
}

const nameOf = ({ kind, name = kind }: KindSpec): WatchName => name;
