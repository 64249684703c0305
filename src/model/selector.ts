// SPDX-License-Identifier: Apache-2.0
// Label selectors as in kubectl's -l: `app=web,tier!=db,env in (a,b),!legacy`.
// Source: apimachinery's labels.Parse, without its comparisons of numbers.

export type Labels = ReadonlyMap<string, string>;
export type Selector = (labels: Labels) => boolean;

const KEY = String.raw`(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?`;
const VALUE = String.raw`(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?`;
const EQUALITY = new RegExp(String.raw`^(${KEY})\s*(=|==|!=)\s*(${VALUE})$`);
const SET = new RegExp(String.raw`^(${KEY})\s+(in|notin)\s*\(([^()]*)\)$`);
const PRESENCE = new RegExp(String.raw`^(!?)\s*(${KEY})$`);
const IS_VALUE = new RegExp(`^${VALUE}$`);

/** undefined: it is none. All requirements must hold; an absent label is unequal to every value. */
export function parseSelector(text: string): Selector | undefined {
  // A comma inside parentheses separates values, any other one separates requirements.
  const requirements = text.split(/,(?![^(]*\))/).map((part) => requirementOf(part.trim()));
  const known = requirements.filter((one) => one !== undefined);
  if (known.length < requirements.length) return undefined;
  return (labels) => known.every((holds) => holds(labels));
}

function requirementOf(part: string): Selector | undefined {
  const [, key = '', operator, value = ''] = EQUALITY.exec(part) ?? [];
  if (operator !== undefined) {
    return (labels) => (labels.get(key) === value) === (operator !== '!=');
  }
  const [, member = '', membership, list = ''] = SET.exec(part) ?? [];
  const values = list.split(',').map((item) => item.trim());
  if (membership !== undefined && values.every((item) => IS_VALUE.test(item))) {
    return (labels) => values.includes(labels.get(member) ?? '\n') === (membership === 'in');
  }
  const [, not, present = ''] = PRESENCE.exec(part) ?? [];
  if (not === undefined) return undefined;
  return (labels) => labels.has(present) === (not === '');
}

/** `app=web,tier=front` -> its pairs. */
export const labelsOf = (text: string): Labels =>
  new Map(
    text === ''
      ? []
      : text.split(',').map((pair): [string, string] => {
          const at = pair.indexOf('=');
          return [pair.slice(0, at), pair.slice(at + 1)];
        }),
  );
