// SPDX-License-Identifier: Apache-2.0
// All objects once more, beside the watch: other connections, plain paged lists that the API server answers as of now, and a
// memory of its own. Only what has changed since the last list is decoded. A list that is older than one before is refused.
import type { Clock } from '../../../lib/clock.ts';
import { isRecord, recordOrEmpty } from '../../../lib/json.ts';
import { SERVICE_NAME_LABEL } from '../../../model/labels.ts';
import type { Kind, ObjectChange, ObjectRef } from '../../../model/types.ts';
import { SYSTEM_CLOCK } from '../../../sys/clock.ts';
import { openCredentials } from '../auth/credentials.ts';
import { createCounters } from '../counters.ts';
import { chunksOf } from '../decode/body.ts';
import { createIntern } from '../decode/intern.ts';
import { ItemSplitter } from '../decode/items.ts';
import { createDecoder, type Decoder } from '../decode/watch-events.ts';
import { type KindSpec, ownNode, SERVICE_CIDRS, SERVICES, SLICES } from '../kinds.ts';
import { LIMITS } from '../limits.ts';
import type { ApiServerChoice } from '../transport/api-server.ts';
import { Servers } from '../transport/servers.ts';
import { createTransport, type Transport } from '../transport/transport.ts';
import { selectorQuery } from '../watch/queries.ts';
import { isOlder } from '../watch/versions.ts';
import { ApiError, WatchError, watchErrorOf } from '../watch/watch-error.ts';
import { type Identity, identityIn, identityOf } from './identity.ts';

/** What the lists of all kinds say. */
export interface Listed {
  /** Since the list before: puts of what is new, removals of what is gone. */
  readonly changes: readonly ObjectChange[];
  readonly objects: number;
}

export interface IndependentList {
  /**
   * @param atLeast by kind: the version up to which something is known; an older list is refused
   * Throws if a list fails, is refused, or is empty where that is never the truth: then nothing has changed here.
   */
  read(atLeast: Readonly<Partial<Record<Kind, string>>>): Promise<Listed>;
  has(ref: ObjectRef): boolean;
  /** The next list has the objects of these Services in full, as if they were new. */
  forget(isAsked: (service: string) => boolean): void;
  close(): Promise<void>;
}

export interface IndependentSettings {
  readonly nodeName: string;
  readonly apiServer: ApiServerChoice;
  readonly userAgent: string;
  readonly clock?: Clock;
}

interface Known {
  readonly identity: Identity;
  /** `default/web`, of a Service or a slice; '' of others. */
  readonly service: string;
  readonly ref: ObjectRef;
}

interface KindState {
  readonly spec: KindSpec;
  readonly decoder: Decoder;
  /** By identity: what is listed unchanged is found without being decoded. */
  known: Map<Identity, Known>;
  version: string;
  usesFieldSelector: boolean;
}

export const independentList = (settings: IndependentSettings): IndependentList =>
  new ApiServerList(settings);

const keyOf = ({ kind, namespace, name }: ObjectRef): string => `${kind} ${namespace}/${name}`;

class ApiServerList implements IndependentList {
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #counters = createCounters();
  readonly #kinds: readonly KindState[];
  #refs: ReadonlySet<string> = new Set();
  #request: AbortController | undefined;
  #servers: Servers;

  constructor({ nodeName, apiServer, userAgent, clock = SYSTEM_CLOCK }: IndependentSettings) {
    this.#clock = clock;
    this.#servers = new Servers(apiServer.servers);
    const credentials = openCredentials(apiServer.credentials);
    this.#transport = createTransport({ servers: this.#servers, credentials, clock, userAgent });
    const intern = createIntern();
    this.#kinds = [SERVICES, SLICES, ownNode(nodeName), SERVICE_CIDRS].map((spec) => ({
      ...{ spec, decoder: createDecoder(spec, intern), known: new Map(), version: '' },
      usesFieldSelector: true,
    }));
  }

  has(ref: ObjectRef): boolean {
    return this.#refs.has(keyOf(ref));
  }

  forget(isAsked: (service: string) => boolean): void {
    for (const { known } of this.#kinds)
      for (const [identity, { service }] of known) if (isAsked(service)) known.delete(identity);
  }

  async read(atLeast: Readonly<Partial<Record<Kind, string>>>): Promise<Listed> {
    const read: KindReading[] = [];
    for (const state of this.#kinds) read.push(await this.#readKind(state, atLeast));
    // All or nothing: a kind that fails leaves the others as they were known.
    const refs = new Set<string>();
    const puts: ObjectChange[] = [];
    for (const { state, known, version, changes } of read) {
      state.known = known;
      state.version = version;
      for (const { ref } of known.values()) refs.add(keyOf(ref));
      puts.push(...changes);
    }
    const gone = [...this.#refs].filter((key) => !refs.has(key));
    this.#refs = refs;
    return {
      changes: [...puts, ...gone.map((key): ObjectChange => ({ type: 'remove', ref: refIn(key) }))],
      objects: refs.size,
    };
  }

  close(): Promise<void> {
    this.#request?.abort(new WatchError('stopped', 'stopped'));
    return this.#transport.close();
  }

  async #readKind(
    state: KindState,
    atLeast: Readonly<Partial<Record<Kind, string>>>,
  ): Promise<KindReading> {
    const { spec } = state;
    const request = new AbortController();
    this.#request = request;
    try {
      const reading = await this.#pages(state, request);
      for (const before of [state.version, atLeast[spec.kind] ?? ''])
        if (isOlder(reading.version, before)) throw this.#tooOld(spec, reading.version, before);
      if (spec.isNeverEmpty && reading.known.size === 0)
        throw new WatchError('refused', `an empty list of ${spec.path} is not believed`);
      return reading;
    } catch (error) {
      if (isSelectorError(error) && spec.isFieldSelectorOptional && state.usesFieldSelector) {
        state.usesFieldSelector = false;
        return this.#readKind(state, atLeast);
      }
      if (spec.isOptional && error instanceof ApiError && [403, 404].includes(error.status))
        return { state, known: new Map(), version: '', changes: [] };
      throw watchErrorOf(error, request.signal);
    }
  }

  #tooOld({ path }: KindSpec, version: string, before: string): WatchError {
    const server = this.#servers.current();
    this.#transport.failed(server);
    return new WatchError(
      'refused',
      `${server.url} answers old lists: ${path} of version ${version}, where ${before} was known`,
    );
  }

  async #pages(state: KindState, request: AbortController): Promise<KindReading> {
    const { spec, usesFieldSelector } = state;
    const reading = { state, known: new Map<Identity, Known>(), version: '', changes: [] };
    const selectors = selectorQuery(spec, usesFieldSelector);
    let token = '';
    do {
      const paging = token === '' ? '' : `&continue=${encodeURIComponent(token)}`;
      const path = `${spec.path}?limit=${LIMITS.pageItems}${paging}${selectors}`;
      const metadata = await this.#page(reading, path, request);
      const { resourceVersion, continue: next } = metadata;
      if (typeof resourceVersion !== 'string' || resourceVersion === '')
        throw new WatchError('undecodable', 'a list without metadata.resourceVersion');
      reading.version = resourceVersion;
      token = typeof next === 'string' ? next : '';
    } while (token !== '');
    return reading;
  }

  async #page(
    reading: KindReading,
    path: string,
    request: AbortController,
  ): Promise<Readonly<Record<string, unknown>>> {
    const answer = await this.#transport.get(path, request);
    const splitter = new ItemSplitter();
    const parts = { transport: this.#transport, clock: this.#clock, counters: this.#counters };
    const idle = { silenceMs: LIMITS.listSilenceMs, reason: 'silent' } as const;
    for await (const chunk of chunksOf(parts, answer, request, () => idle))
      for (const item of splitter.push(chunk)) takeItem(reading, item);
    return recordOrEmpty(recordOrEmpty(splitter.envelope())['metadata']);
  }
}

interface KindReading {
  readonly state: KindState;
  readonly known: Map<Identity, Known>;
  readonly version: string;
  readonly changes: ObjectChange[];
}

function takeItem({ state, known, changes }: KindReading, item: Uint8Array): void {
  const seen = identityIn(item);
  const before = seen === undefined ? undefined : state.known.get(seen);
  if (before !== undefined) {
    known.set(before.identity, before);
    return;
  }
  const observed = state.decoder.item(item);
  if (observed === undefined || !state.spec.isWanted(observed.object)) return;
  const { ref, uid, version, object } = observed;
  const identity = identityOf(uid, version);
  known.set(identity, { identity, ref, service: serviceOf(ref, object) });
  changes.push({ type: 'put', ref, object });
}

function serviceOf({ kind, namespace, name }: ObjectRef, object: unknown): string {
  if (kind === 'Service') return `${namespace}/${name}`;
  const labels = recordOrEmpty(recordOrEmpty(object)['metadata'])['labels'];
  const service = isRecord(labels) ? labels[SERVICE_NAME_LABEL] : undefined;
  return kind === 'EndpointSlice' && typeof service === 'string' ? `${namespace}/${service}` : '';
}

function refIn(key: string): ObjectRef {
  const [kind = '', path = ''] = key.split(' ');
  const [namespace = '', name = ''] = path.split('/');
  return { kind: kind as Kind, namespace, name };
}

const isSelectorError = (error: unknown): boolean =>
  error instanceof ApiError && error.status === 400;
