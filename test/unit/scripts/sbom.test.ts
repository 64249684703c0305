// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'fairlead-sbom-'));
afterAll(() => rmSync(folder, { recursive: true }));

const control = (name: string, source: string): string =>
  `Package: ${name}\n${source}Version: 1:1.2+b1\nArchitecture: arm64\nDescription: a library\n`;
const npm = {
  ...{ bomFormat: 'CycloneDX', specVersion: '1.5', version: 1, serialNumber: 'urn:uuid:1' },
  metadata: { timestamp: '2026-01-01T00:00:00Z', component: { name: 'image', type: 'library' } },
  components: [{ name: 'undici', purl: 'pkg:npm/undici@7.0.0' }],
  dependencies: [],
};
const bom = () =>
  JSON.parse(
    execFileSync('node', ['scripts/image/sbom.mjs', folder], {
      input: JSON.stringify(npm),
      encoding: 'utf8',
    }),
  );

test('npm’s packages, Node and Debian’s packages with their source packages', () => {
  writeFileSync(join(folder, 'libbpf1'), control('libbpf1', 'Source: libbpf (1.2)\n'));
  writeFileSync(join(folder, 'libstdc++6'), control('libstdc++6', ''));
  expect(bom().components.map(({ purl }: { readonly purl: string }) => purl)).toEqual([
    'pkg:npm/undici@7.0.0',
    `pkg:generic/node@${process.versions.node}`,
    'pkg:deb/debian/libbpf1@1%3A1.2%2Bb1?arch=arm64&upstream=libbpf',
    'pkg:deb/debian/libstdc%2B%2B6@1%3A1.2%2Bb1?arch=arm64&upstream=libstdc++6',
  ]);
});

test('neither time nor serial number: the same inputs give the same file', () => {
  const { metadata, serialNumber } = bom();
  expect(metadata).toEqual({ component: { name: 'fairlead', type: 'application' } });
  expect(serialNumber).toBeUndefined();
});
