// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { labelsOf, parseSelector } from '../../../src/model/selector.ts';

const WEB = labelsOf('app.kubernetes.io/name=web,empty=,tier=front');
const NONE = labelsOf('');

describe('selectors as kubectl reads them', () => {
  test.each<[selector: string, ofWeb: boolean, ofNone: boolean]>([
    ['tier=front', true, false],
    ['tier==front', true, false],
    ['tier = back', false, false],
    ['tier!=back', true, true],
    ['tier!=front', false, true],
    ['app.kubernetes.io/name=web,tier=front', true, false],
    ['app.kubernetes.io/name=web,tier=back', false, false],
    ['tier in (front, back)', true, false],
    ['tier notin (front,back)', false, true],
    ['tier in (a,b),empty', false, false],
    ['empty=', true, false],
    ['tier', true, false],
    ['!tier', false, true],
    ['!absent', true, true],
  ])('%s', (text, ofWeb, ofNone) => {
    const selector = parseSelector(text)!;
    expect([selector(WEB), selector(NONE)]).toEqual([ofWeb, ofNone]);
  });

  test.each(['', '=web', 'a=b,', 'a in b', 'a in (b', 'a=b c', 'a>3'])('%j is rejected', (text) => {
    expect(parseSelector(text)).toBeUndefined();
  });
});
