// SPDX-License-Identifier: Apache-2.0
// The generated part of a document, between two comments that name its benchmark.
import type { Report } from './figures.ts';

/** Columns of rules alone have a part of the document for each variant of the tools. */
export const partOf = ({
  iptables,
  sizes,
}: Pick<Report, 'iptables' | 'sizes'>): string | undefined =>
  sizes.some(({ rounds }) => rounds.some(({ fairlead }) => fairlead !== undefined))
    ? undefined
    : `iptables-${iptables}`;

/** Throws if the document does not have the two comments, once each and in this order. */
export function replaceFigures(
  document: string,
  figures: string,
  bench = 'bench:control',
  part?: string,
): string {
  const name = part === undefined ? bench : `${bench}, ${part}`;
  const begin = `<!-- ${name}: renewed by \`npm run ${bench} -- --document\` -->`;
  const end = `<!-- ${name} ends -->`;
  const [before, rest, ...more] = document.split(begin);
  const [, after, ...others] = rest?.split(end) ?? [];
  if (before === undefined || after === undefined || more.length + others.length > 0) {
    throw new Error(`the document needs one line "${begin}" and, after it, one line "${end}"`);
  }
  return `${before}${begin}\n\n${figures}\n\n${end}${after}`;
}
