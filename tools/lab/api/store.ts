// SPDX-License-Identifier: Apache-2.0
// The objects of a stub API server, their history, and who watches them.
import { type JsonRecord, recordOrEmpty } from '../../../src/lib/json.ts';
import { defaulted, type StubObject } from './defaults.ts';

export const API_VERSIONS: Readonly<Record<string, string>> = {
  Service: 'v1',
  Node: 'v1',
  EndpointSlice: 'discovery.k8s.io/v1',
  ServiceCIDR: 'networking.k8s.io/v1',
};

export interface Change {
  readonly version: number;
  readonly kind: string;
  readonly before: StubObject | undefined;
  readonly after: StubObject | undefined;
}

export class Store {
  readonly #objects = new Map<string, StubObject>();
  readonly #history: Change[] = [];
  readonly #watchers = new Set<(change: Change) => void>();
  #version = 1;

  get version(): number {
    return this.#version;
  }

  get(key: string): StubObject | undefined {
    return this.#objects.get(key);
  }

  list(kind: string, query: URLSearchParams): StubObject[] {
    return [...this.#objects.values()].filter(
      (object) => object.kind === kind && isSelected(object, query),
    );
  }

  since(version: number): readonly Change[] {
    return this.#history.filter((change) => change.version > version);
  }

  /** Until the returned call. */
  watch(watcher: (change: Change) => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  put(object: StubObject): void {
    const { namespace = '', name } = object.metadata;
    const apiVersion = API_VERSIONS[object.kind];
    this.#change(`${object.kind} ${namespace}/${name}`, defaulted({ apiVersion, ...object }));
  }

  remove(key: string): void {
    this.#change(key, undefined);
  }

  #change(key: string, object: StubObject | undefined): void {
    const before = this.#objects.get(key);
    this.#version += 1;
    const resourceVersion = String(this.#version);
    const after = object && { ...object, metadata: { ...object.metadata, resourceVersion } };
    if (after === undefined) this.#objects.delete(key);
    else this.#objects.set(key, after);
    const change = { version: this.#version, kind: key.split(' ')[0] ?? '', before, after };
    this.#history.push(change);
    for (const watcher of this.#watchers) watcher(change);
  }
}

/** The selectors that a proxy sends, and no others. */
export function isSelected(object: StubObject | undefined, query: URLSearchParams): boolean {
  if (object === undefined) return false;
  const terms = `${query.get('labelSelector') ?? ''},${query.get('fieldSelector') ?? ''}`;
  const labels = recordOrEmpty(object.metadata['labels']);
  return terms.split(',').every((term) => {
    const [field = '', value] = term.split(/!?=/);
    if (term === '') return true;
    if (term.startsWith('!')) return labels[term.slice(1)] === undefined;
    const found = field
      .split('.')
      .reduce((at: unknown, name) => recordOrEmpty(at)[name], object as JsonRecord);
    return term.includes('!=') ? found !== value : found === value;
  });
}
