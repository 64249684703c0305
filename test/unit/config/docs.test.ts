// SPDX-License-Identifier: Apache-2.0
// docs/configuration.md lists exactly the existing settings and flags.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { kubeProxySchema } from '../../../src/config/file/schema.ts';
import { FLAGS } from '../../../src/config/flags/flags.ts';
import type { Setting } from '../../../src/config/settings/row.ts';
import { ROWS } from '../../../src/config/settings/settings.ts';

const text = readFileSync(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');

const sectionOf = (heading: string): string =>
  text.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';

/** First cells of the table under a heading. */
const listed = (heading: string): readonly string[] =>
  [...sectionOf(heading).matchAll(/^\| `([^`]+)` \|/gm)].map(([, name = '']) => name);

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
  expect(listed('KubeProxyConfiguration')).toEqual(settings(kubeProxySchema));
});

/** A row of the document for a setting, or one for each of its fields. */
function rowsOf([field, { defaultText, default: usual, doc, fields }]: readonly [
  string,
  Setting,
]): readonly string[] {
  const row = (name: string, value: string, meaning: string): string =>
    `| \`${name}\` |${value === '' ? '' : ` ${value}`} | ${meaning} |`;
  if (fields === undefined) return [row(field, defaultText ?? String(usual ?? ''), doc)];
  return Object.entries(fields).map(([name, cells]) => row(`${field}.${name}`, ...cells));
}

test('every setting of fairlead, as its row of src/config/settings says', () => {
  const there = sectionOf('FairleadConfiguration').split('\n');
  expect(there.filter((line) => line.startsWith('| `'))).toEqual(ROWS.flatMap(rowsOf));
});

test('every setting that the iptables engine ignores, and every one that it remaps', () => {
  const [, said = ''] = sectionOf('FairleadConfiguration').split('\nOnly the bpf engine uses ');
  const [ignored = '', remapped = ''] = said.split('.');
  const named = (sentence: string) => [...sentence.matchAll(/`(\w+)`/g)].map(([, name]) => name);
  const reasoned = (start: string) =>
    ROWS.filter(([, { onIptables }]) => onIptables?.reason.startsWith(start)).map(([name]) => name);
  expect(named(ignored)).toEqual(reasoned('ignored'));
  expect(named(remapped)).toEqual(reasoned('remapped'));
});

test('every flag, with its fields, or its meaning if it has none', () => {
  const rows = FLAGS.map(({ flag, short, paths, help }) => {
    const name = short === undefined ? `--${flag}` : `--${flag}, -${short}`;
    const fields = paths.map((path) => `\`${path.join('.')}\``).join(', ');
    return `| \`${name}\` | ${fields === '' ? help : fields} |`;
  });
  const there = text.split('\n').filter((line) => line.startsWith('| `--'));
  expect(there).toEqual(rows);
});
