// SPDX-License-Identifier: Apache-2.0
// What is printed with and without a terminal.

import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { bar, createScreen } from '../../../../tools/demo/screen.ts';

function record(isTTY: boolean, env: Record<string, string> = {}) {
  const written: string[] = [];
  const screen = createScreen({ isTTY, write: (text) => written.push(text) }, env);
  return { screen, text: () => written.join('') };
}

test('without a terminal a progress bar is one plain line at its end', () => {
  const { screen, text } = record(false);
  const progress = screen.progress('TCP', 300);
  progress.show(100);
  progress.end(300);
  screen.line(screen.good('ok'));
  expect(text()).toBe('  TCP: 300 of 300\nok\n');
});

test('a terminal gets a bar that redraws itself, and colour', () => {
  const { screen, text } = record(true);
  screen.progress('TCP', 300).show(100);
  screen.line(screen.good('ok'));
  expect(text()).toContain(`\r\x1b[K  ${'█'.repeat(10)}${'·'.repeat(20)} 33 %  TCP`);
  expect(text()).toContain('\x1b[32mok\x1b[39m');
});

test.each([{ NO_COLOR: '1' }, { TERM: 'dumb' }])('no colour with %o', (env) => {
  const { screen } = record(true, env);
  expect(screen.bad('wrong')).toBe('wrong');
});

test('columns line up, numbers to the right, colour codes without width', () => {
  const { screen, text } = record(true);
  screen.table(
    ['POD', 'HITS', ''],
    [
      ['web-1', '7', screen.good('ok')],
      ['web-22', '1234', screen.good('ok')],
    ],
  );
  expect(stripVTControlCharacters(text()).split('\n')).toEqual([
    '  POD     HITS',
    '  web-1      7  ok',
    '  web-22  1234  ok',
    '',
  ]);
});

test.each([
  { share: 0, text: '    ' },
  { share: 0.5, text: '██  ' },
  { share: 7, text: '████' },
])('a bar of $share', ({ share, text }) => {
  expect(bar(share, 4)).toBe(text);
});
