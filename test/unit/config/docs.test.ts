// SPDX-License-Identifier: Apache-2.0
// docs/configuration.md lists exactly the existing settings and flags.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { kubeProxySchema } from '../../../src/config/file/schema.ts';
import { FLAGS } from '../../../src/config/flags/flags.ts';
import type { FlagRow } from '../../../src/config/flags/row.ts';
import type { Setting } from '../../../src/config/settings/row.ts';
import { ROWS } from '../../../src/config/settings/settings.ts';

const text = readFileSync(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');

const sectionOf = (heading: string): string =>
  text.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';

/** First cells of the table under a heading. */
const listed = (heading: string): readonly string[] =>
  [...sectionOf(heading).matchAll(/^\| (`[^|]+`) \|/gm)].map(([, cell = '']) => cell);

const flagName = ({ flag, short }: FlagRow): string =>
  short === undefined ? `--${flag}` : `--${flag}, -${short}`;

/** The first cell of a field: its name, and the flags that set it. */
const cellOf = (field: string): string =>
  [field, ...FLAGS.filter(({ paths }) => paths.map(pathText).includes(field)).map(flagName)]
    .map((name) => `\`${name}\``)
    .join(', ');
const pathText = (path: FlagRow['paths'][number]): string => path.join('.');

/** Names of everything that can be set: `conntrack.min`. */
function leaves(schema: unknown, prefix = ''): readonly string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) {
    return leaves(schema.unwrap(), prefix);
  }
  if (!(schema instanceof z.ZodObject)) return [prefix.slice(1)];
  return Object.entries(schema.shape).flatMap(([key, inner]) => leaves(inner, `${prefix}.${key}`));
}

const HEADER = ['apiVersion', 'kind'];
const settings = (schema: unknown) => leaves(schema).filter((name) => !HEADER.includes(name));

test('every field of KubeProxyConfiguration', () => {
  expect(listed('KubeProxyConfiguration')).toEqual(settings(kubeProxySchema).map(cellOf));
});

/** A row of the document for a setting, or one for each of its fields. */
function rowsOf([field, { defaultText, default: usual, doc, fields }]: readonly [
  string,
  Setting,
]): readonly string[] {
  const row = (name: string, value: string, meaning: string): string =>
    `| ${cellOf(name)} |${value === '' ? '' : ` ${value}`} | ${meaning} |`;
  if (fields === undefined) return [row(field, defaultText ?? String(usual ?? ''), doc)];
  return Object.entries(fields).map(([name, cells]) => row(`${field}.${name}`, ...cells));
}

test('every setting of fairlead, as its row of src/config/settings says', () => {
  const there = sectionOf('FairleadConfiguration').split('\n');
  expect(there.filter((line) => line.startsWith('| `'))).toEqual(ROWS.flatMap(rowsOf));
});

test('every setting that the iptables engine ignores, and every one that it remaps', () => {
  const [, said = ''] = sectionOf('FairleadConfiguration').split('\nThe iptables engine ignores ');
  const [ignored = '', remapped = ''] = said.split('.');
  const named = (sentence: string) => [...sentence.matchAll(/`(\w+)`/g)].map(([, name]) => name);
  const reasoned = (start: string) =>
    ROWS.filter(([, { onIptables }]) => onIptables?.reason.startsWith(start)).map(([name]) => name);
  expect(named(ignored)).toEqual(reasoned('ignored'));
  expect(named(remapped)).toEqual(reasoned('remapped'));
});

test('every flag: with its field, or with its meaning in a table of its own', () => {
  const fields = listed('KubeProxyConfiguration').concat(listed('FairleadConfiguration'));
  const isBesideItsFields = (one: FlagRow): boolean =>
    one.paths.length > 0 &&
    one.paths
      .map(pathText)
      .map(cellOf)
      .every((cell) => fields.includes(cell));
  const others = FLAGS.filter((one) => !isBesideItsFields(one));
  expect(others.length).toBeLessThan(20);
  const there = text.split('\n').filter((line) => line.startsWith('| `--'));
  expect(there).toEqual(
    others.map(
      (one) =>
        `| \`${flagName(one)}\` | ${one.paths.length > 0 ? one.paths.map((path) => `\`${pathText(path)}\``).join(', ') : one.help} |`,
    ),
  );
});
