// SPDX-License-Identifier: Apache-2.0
// One kind, or a whole cluster, followed from a fake API server, on a clock that stands still.
import { onTestFinished } from 'vitest';
import type { ObjectChange } from '../../../../../src/model/types.ts';
import {
  type CredentialSource,
  openCredentials,
} from '../../../../../src/source/apiserver/auth/credentials.ts';
import {
  type ClusterHandlers,
  type ClusterProblem,
  type ClusterSettings,
  openCluster,
} from '../../../../../src/source/apiserver/cluster.ts';
import type { RequestFacts } from '../../../../../src/source/apiserver/counters.ts';
import { createIntern } from '../../../../../src/source/apiserver/decode/intern.ts';
import { type KindSpec, SLICES } from '../../../../../src/source/apiserver/kinds.ts';
import type { ApiServerChoice } from '../../../../../src/source/apiserver/transport/api-server.ts';
import { Servers, type ServerUrl } from '../../../../../src/source/apiserver/transport/servers.ts';
import { createTransport } from '../../../../../src/source/apiserver/transport/transport.ts';
import { Delivery } from '../../../../../src/source/apiserver/watch/delivery.ts';
import { Reflector } from '../../../../../src/source/apiserver/watch/reflector.ts';
import type { Suspicion } from '../../../../../src/source/apiserver/watch/store.ts';
import { until } from '../../../../support/until.ts';
import { FakeApiServer } from './fake-api-server.ts';
import { FakeClock } from './fake-clock.ts';
import { slice } from './objects.ts';

export const PATH = SLICES.path;

export async function openServer(tls?: {
  readonly cert: string;
  readonly key: string;
}): Promise<FakeApiServer> {
  const server = await FakeApiServer.open(tls);
  onTestFinished(() => server.close());
  return server;
}

/** A server with slices a, b, .. */
export async function serverWith(...names: string[]): Promise<FakeApiServer> {
  const server = await openServer();
  for (const name of names) server.put(PATH, slice(name));
  return server;
}

export const SILENT_LOG = { info: () => {}, warn: () => {}, debug: () => {} };

export interface Options {
  readonly spec?: KindSpec;
  readonly servers?: readonly ServerUrl[];
  readonly credentials?: CredentialSource;
  /** Default: there is nobody to give way to. */
  readonly spreadMs?: number;
  /** Called before changes are recorded; may throw. */
  readonly onChanges?: (changes: readonly ObjectChange[]) => void;
}

export type Following = ReturnType<typeof follow>;

export function follow(server: FakeApiServer, options: Options = {}) {
  const clock = new FakeClock();
  const servers = new Servers(options.servers ?? [{ url: server.url, tlsName: undefined }]);
  const credentials = openCredentials(options.credentials ?? { kind: 'none' });
  const transport = createTransport({ servers, credentials, clock, userAgent: 'test' });
  /** `put default/a`, `remove default/a`, `synced`, `suspicious: ..` in order. */
  const events: string[] = [];
  const objects = new Map<string, unknown>();
  const suspicions: Suspicion[] = [];
  const delivery = new Delivery({
    clock,
    log: SILENT_LOG,
    onChanges(changes) {
      options.onChanges?.(changes);
      for (const change of changes) {
        const key = `${change.ref.namespace}/${change.ref.name}`;
        events.push(`${change.type} ${key}`);
        if (change.type === 'put') objects.set(key, change.object);
        else objects.delete(key);
      }
    },
  });
  const reflector = new Reflector({
    spec: options.spec ?? SLICES,
    transport,
    clock,
    delivery,
    intern: createIntern(),
    log: SILENT_LOG,
    spreadMs: () => options.spreadMs ?? 0,
    onSynced: () => events.push('synced'),
    onSuspicion: (suspicion) => suspicions.push(suspicion),
    onProblem: () => undefined,
  });
  const close = async (): Promise<void> => {
    delivery.close();
    await reflector.stop();
    await transport.close();
  };
  onTestFinished(close);
  reflector.start();
  const waitFor = (event: string, times = 1): Promise<true> =>
    until(
      () => events.filter((one) => one === event).length >= times,
      `${event} after ${events.join(', ')}`,
    );
  const watching = (): Promise<true> =>
    until(() => reflector.status().state === 'watching' && server.watchers.size > 0, 'a watch');
  /** Waits for a pause between tries and lets it pass; returns its length. */
  const passPause = async (): Promise<number> => {
    await until(() => reflector.status().state === 'waiting', 'a pause');
    const [delayMs = 0] = clock.delaysMs();
    clock.advance(delayMs);
    return delayMs;
  };
  return {
    passPause,
    clock,
    servers,
    reflector,
    delivery,
    events,
    objects,
    suspicions,
    waitFor,
    watching,
    close,
  };
}

/** What a test wants otherwise. */
export interface ClusterOverrides extends Partial<Omit<ClusterSettings, 'apiServer' | 'clock'>> {
  readonly apiServer?: Partial<ApiServerChoice>;
}

/** How a cluster behind this server is followed. */
export function clusterSettings(
  server: FakeApiServer,
  over: ClusterOverrides = {},
): ClusterSettings & { readonly clock: FakeClock } {
  return {
    ...{ nodeName: 'n1', runDir: undefined, watchesServiceCidrs: false },
    ...{ userAgent: 'test', log: SILENT_LOG, ...over },
    apiServer: {
      servers: [{ url: server.url, tlsName: undefined }],
      credentials: { kind: 'none' },
      winner: 'api-server flag',
      why: 'the test says so',
      passedOver: [],
      ...over.apiServer,
    },
    clock: new FakeClock(),
  };
}

/** All kinds together. */
export function followCluster(
  server: FakeApiServer,
  over: ClusterOverrides = {},
  handlers: Pick<Partial<ClusterHandlers>, 'onSynced'> = {},
) {
  /** `put Service web`, `remove Node n1`, `synced`, `suspicious Service: ..` in order. */
  const events: string[] = [];
  const problems: ClusterProblem[][] = [];
  const requests: RequestFacts[] = [];
  const settings = clusterSettings(server, over);
  const cluster = openCluster(settings, {
    onChanges(changes) {
      for (const { type, ref } of changes) events.push(`${type} ${ref.kind} ${ref.name}`);
    },
    onSynced() {
      events.push('synced');
      handlers.onSynced?.();
    },
    onNodes: () => events.push('nodes'),
    onProblems: (now) => problems.push([...now]),
    onRequest: (request) => requests.push(request),
    onSuspiciousEmpty: (kind, { reason }) => events.push(`suspicious ${kind}: ${reason}`),
  });
  onTestFinished(() => cluster.close());
  const isWatching = (): boolean =>
    cluster.status().watches.every(({ state }) => state === 'watching');
  const watching = (): Promise<true> => until(isWatching, 'watches');
  const { clock } = settings;
  return { clock, cluster, events, problems, requests, isWatching, watching };
}
