// SPDX-License-Identifier: Apache-2.0
// Values of the options of benchmarks, for commander. Pure.
import { InvalidArgumentError } from 'commander';

export function count(text: string): number {
  if (!/^[1-9]\d{0,4}$/.test(text)) {
    throw new InvalidArgumentError(`${text} is not a number from 1 to 99,999.`);
  }
  return Number(text);
}

/** In ascending order: Services are added, never removed. */
export const counts = (text: string): readonly number[] =>
  [...new Set(text.split(',').map(count))].sort((a, b) => a - b);

/** In the order of `known`, and with those that others are compared with. */
export const listOf =
  <Name extends string>(known: readonly Name[], always: readonly Name[] = []) =>
  (text: string): readonly Name[] => {
    const wanted: readonly string[] = text.split(',');
    const unknown = wanted.find((name) => !known.some((one) => one === name));
    if (unknown !== undefined) {
      throw new InvalidArgumentError(`${unknown} is none of ${known.join(', ')}.`);
    }
    return known.filter((name) => always.includes(name) || wanted.includes(name));
  };
