// SPDX-License-Identifier: Apache-2.0
// docs/configuration.md lists exactly the existing settings and flags.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { ownSchema } from '../../../src/config/file/fairlead-schema.ts';
import { kubeProxySchema } from '../../../src/config/file/schema.ts';
import { FLAGS } from '../../../src/config/flags/flags.ts';

const text = readFileSync(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');

/** First cells of the table under a heading. */
function listed(heading: string): readonly string[] {
  const section = text.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name = '']) => name);
}

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

test('every field of FairleadConfiguration', () => {
  expect(listed('FairleadConfiguration')).toEqual(settings(ownSchema));
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
