// SPDX-License-Identifier: Apache-2.0
// The first of many, as text. Pure.

const MOST = 4;

/** `a, b, c, d and 12 more`. */
export function listed(texts: readonly string[]): string {
  const rest = texts.length - MOST;
  return [...texts.slice(0, MOST), ...(rest > 0 ? [`and ${rest} more`] : [])].join(', ');
}
