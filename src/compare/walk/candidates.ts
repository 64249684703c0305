// SPDX-License-Identifier: Apache-2.0
// Which rules of a chain can match a destination at all. kube-proxy's iptables mode has chains with a rule for each of
// 10,000 Services, each with its own address or port.
import { type AddressNumber, isOneAddress } from '../rules/ranges.ts';
import type { Rule } from '../rules/types.ts';

/** A shorter chain is walked as it is. */
const INDEXED_LENGTH = 16;

interface Index {
  /** Numbers of rules, ascending. */
  readonly byAddress: ReadonlyMap<AddressNumber, readonly number[]>;
  readonly byPort: ReadonlyMap<number, readonly number[]>;
  readonly others: readonly number[];
  readonly otherRules: readonly Rule[];
}

const INDEXES = new WeakMap<readonly Rule[], Index>();

/** @param port host order; undefined: any */
export function candidates(
  rules: readonly Rule[],
  at: AddressNumber,
  port: number | undefined,
): readonly Rule[] {
  if (rules.length < INDEXED_LENGTH) return rules;
  const index = INDEXES.get(rules) ?? indexOf(rules);
  INDEXES.set(rules, index);
  const byPort = port === undefined ? [...index.byPort.values()].flat() : index.byPort.get(port);
  const byAddress = index.byAddress.get(at);
  if (byAddress === undefined && byPort === undefined) return index.otherRules;
  const numbers = [...(byAddress ?? []), ...(byPort ?? []), ...index.others];
  return numbers.sort((a, b) => a - b).flatMap((number) => rules[number] ?? []);
}

function indexOf(rules: readonly Rule[]): Index {
  const byAddress = new Map<AddressNumber, number[]>();
  const byPort = new Map<number, number[]>();
  const others: number[] = [];
  for (const [number, rule] of rules.entries()) {
    const address = addressOf(rule);
    const port = address === undefined ? portOf(rule) : undefined;
    if (address !== undefined) add(byAddress, address, number);
    else if (port !== undefined) add(byPort, port, number);
    else others.push(number);
  }
  const otherRules = others.flatMap((number) => rules[number] ?? []);
  return { byAddress, byPort, others, otherRules };
}

function add<Key>(map: Map<Key, number[]>, key: Key, number: number): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [number]);
  else list.push(number);
}

function addressOf({ tests }: Rule): AddressNumber | undefined {
  for (const test of tests) {
    if (test.kind !== 'address' || test.side !== 'destination' || test.not) continue;
    const [only] = test.ranges;
    if (test.ranges.length === 1 && only !== undefined && isOneAddress(only)) return only.from;
  }
  return undefined;
}

function portOf({ tests }: Rule): number | undefined {
  for (const test of tests) {
    if (test.kind !== 'port' || test.not) continue;
    const [only] = test.ranges;
    if (test.ranges.length === 1 && only !== undefined && only.from === only.to) return only.from;
  }
  return undefined;
}
