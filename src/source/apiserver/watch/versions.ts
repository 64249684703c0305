// SPDX-License-Identifier: Apache-2.0
// Order of resourceVersions: decimal numbers of any length (KEP-5504 makes this a promise of the API;
// every server so far has kept it).

const DECIMAL = /^[1-9][0-9]*$/;

/** Negative if a is older than b, 0 if equal; undefined if either is no such number: then nothing is known. */
function compareVersions(a: string, b: string): number | undefined {
  if (a === b) return 0;
  if (!DECIMAL.test(a) || !DECIMAL.test(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : 1;
}

/** True only if a is known to be older than b. */
export const isOlder = (a: string, b: string): boolean => (compareVersions(a, b) ?? 0) < 0;
