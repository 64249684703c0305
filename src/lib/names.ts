// SPDX-License-Identifier: Apache-2.0
// Kubernetes names: labels of RFC 1123 (Services, namespaces, port names).

/** Longest namespace, Service name and port name that fit everywhere names are written. */
const MAX_LABEL_LENGTH = 63;

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;

/** The reason why the text cannot be a label; undefined if it can. */
export function validateLabel(text: string): string | undefined {
  if (text === '') return 'is empty';
  if (text.length > MAX_LABEL_LENGTH) {
    return `is ${text.length} characters long, at most ${MAX_LABEL_LENGTH} are allowed`;
  }
  return LABEL.test(text)
    ? undefined
    : 'must be lower case letters, digits and hyphens, with a letter or digit at both ends';
}

/** -1, 0 or 1 by code units: the same order on every machine, whatever its locale. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
