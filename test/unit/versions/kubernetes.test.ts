// SPDX-License-Identifier: Apache-2.0
// What the documents and the program say of Kubernetes' version is what the tests run.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { kubernetesVersion } from '../../support/programs/kubernetes.ts';

const version = kubernetesVersion();
const minor = version.replace(/\.\d+$/, '');
const read = (path: string): string =>
  readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

test('control plane, kube-proxy and kubelets are of one version', () => {
  expect(kubernetesVersion('kubelet')).toBe(version);
});

test('the README names the version that is tested', () => {
  const rows = read('README.md').match(/^\| Kubernetes \| .*$/gm) ?? [];
  expect(rows).toHaveLength(1);
  expect(rows[0]?.match(/\d+\.\d+\.\d+/g)).toEqual([version]);
});

test.each([
  ['docs/semantics.md', /kube-proxy (\d+\.\d+) in both modes/g],
  ['docs/semantics.md', /the rules of kube-proxy (\d+\.\d+), letter by/g],
  ['src/server/metrics/z-pages.ts', /EMULATED = '(\d+\.\d+)'/g],
])('%s follows that version: %s', (path, pattern) => {
  expect([...read(path).matchAll(pattern)].map(([, found]) => found)).toEqual([minor]);
});
