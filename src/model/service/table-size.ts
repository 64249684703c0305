// SPDX-License-Identifier: Apache-2.0
// Which sizes a Maglev table may have: primes, because a backend's preferences must visit every entry.

/** What a Service may ask for at least. */
export const LEAST_ENTRIES = 251;
/** Half a MiB in the kernel. */
export const MOST_ENTRIES = 131_071;

export function isPrime(number: number): boolean {
  if (!Number.isInteger(number) || number < 2) return false;
  for (let divisor = 2; divisor * divisor <= number; divisor += 1) {
    if (number % divisor === 0) return false;
  }
  return true;
}
