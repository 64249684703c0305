// SPDX-License-Identifier: Apache-2.0
// A name of a pin has one layout for ever: an update finds the maps of the version before. layouts.txt has those of all names
// that there were: for a name that is not there the message has the line.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { declaredMaps } from '../../../src/engines/bpf/kernel/migration/changes.ts';
import { mapPin } from '../../../src/engines/bpf/layout/versions.ts';
import { packageRoot } from '../../../src/sys/package.ts';

const OBJECTS = ['sock', 'packet', 'sweep'] as const;

const known = new Map(
  readFileSync(new URL('support/layouts.txt', import.meta.url), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => line.split(' ') as [pin: string, digest: string]),
);

test('each pin has the layout that its name had before, else increment its version', () => {
  const objects = OBJECTS.map((name) => ({
    bytes: readFileSync(join(packageRoot(), 'build/bpf', `${name}.bpf.o`)),
  }));
  const now = [...declaredMaps(objects, {})].map(([map, { key, value }]) => {
    const digest = createHash('sha256').update(`${key}|${value}`).digest('hex');
    return [mapPin(map), digest.slice(0, 16)] as const;
  });
  expect(now.length).toBeGreaterThan(40);
  const others = now.filter(([pin, digest]) => known.get(pin) !== digest);
  expect(others.map((line) => line.join(' '))).toEqual([]);
});
