// SPDX-License-Identifier: Apache-2.0
// The generated part of a document, between two comments.

const BEGIN = '<!-- bench:control: renewed by `npm run bench:control -- --document` -->';
const END = '<!-- bench:control ends -->';

/** Throws if the document does not have the two comments, once each and in this order. */
export function replaceFigures(document: string, figures: string): string {
  const [before, rest, ...more] = document.split(BEGIN);
  const [, after, ...others] = rest?.split(END) ?? [];
  if (before === undefined || after === undefined || more.length + others.length > 0) {
    throw new Error(`the document needs one line "${BEGIN}" and, after it, one line "${END}"`);
  }
  return `${before}${BEGIN}\n\n${figures}\n\n${END}${after}`;
}
