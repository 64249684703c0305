// SPDX-License-Identifier: Apache-2.0
// Backends in few bytes: the addresses are a column that a set shares with the slice they come from, and a
// value that all of them have is stored once.
import { exactList } from '../../lib/compact.ts';
import type { Backend, BackendList } from '../types.ts';

type Value = number | boolean | string | undefined;

/** One value for each backend, or the one that all have: equal columns have equal representations. */
export type Column<T> = T | readonly T[];

class Columns implements BackendList {
  readonly addresses: readonly string[];
  readonly ports: Column<number>;
  readonly areLocal: Column<boolean>;
  readonly areTerminating: Column<boolean>;
  readonly weights: Column<number>;
  readonly nodes: Column<string | undefined>;

  constructor(
    addresses: readonly string[],
    { ports, areLocal, areTerminating, weights, nodes }: Omit<BackendColumns, 'addresses'>,
  ) {
    this.addresses = addresses;
    this.ports = ports;
    this.areLocal = areLocal;
    this.areTerminating = areTerminating;
    this.weights = weights;
    this.nodes = nodes;
  }

  get length(): number {
    return this.addresses.length;
  }

  map<T>(each: (backend: Backend) => T): T[] {
    return this.addresses.map((address, index) => each(this.#at(address, index)));
  }

  [Symbol.iterator](): Iterator<Backend> {
    return this.map((backend) => backend)[Symbol.iterator]();
  }

  #at(address: string, index: number): Backend {
    const backend = {
      address,
      port: valueAt(this.ports, index),
      isLocal: valueAt(this.areLocal, index),
      isTerminating: valueAt(this.areTerminating, index),
    };
    const weight = valueAt(this.weights, index);
    const node = valueAt(this.nodes, index);
    if (node !== undefined) return { ...backend, ...(weight !== 1 && { weight }), node };
    return weight === 1 ? backend : { ...backend, weight };
  }
}

export interface BackendColumns {
  readonly addresses: readonly string[];
  readonly ports: Column<number>;
  readonly areLocal: Column<boolean>;
  readonly areTerminating: Column<boolean>;
  readonly weights: Column<number>;
  readonly nodes: Column<string | undefined>;
}

const NO_BACKENDS: BackendList = Object.freeze([]);

export function valueAt<T extends Value>(column: Column<T>, index: number): T {
  // An index within the addresses: every column has a value for it.
  return typeof column === 'object' ? (column[index] as T) : column;
}

/** The backends at these indexes, in their order; all of them share the addresses. */
export function pickBackends(from: BackendColumns, indexes: readonly number[]): BackendList {
  const { addresses, ports, areLocal, areTerminating, weights, nodes } = from;
  if (indexes.length === 0) return NO_BACKENDS;
  const isAll = indexes.length === addresses.length;
  const picked = isAll ? addresses : exactList(indexes.map((index) => addresses[index] ?? ''));
  return new Columns(picked, {
    ports: pickColumn(ports, indexes),
    areLocal: pickColumn(areLocal, indexes),
    areTerminating: pickColumn(areTerminating, indexes),
    weights: pickColumn(weights, indexes),
    nodes: pickColumn(nodes, indexes),
  });
}

function pickColumn<T extends Value>(column: Column<T>, indexes: readonly number[]): Column<T> {
  if (typeof column !== 'object') return column;
  const first = valueAt(column, indexes[0] ?? 0);
  if (indexes.every((index) => column[index] === first)) return first;
  return exactList(indexes.map((index) => valueAt(column, index)));
}
