// SPDX-License-Identifier: Apache-2.0
// What an agent would reject, with its line, before an agent reads it.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  exitCodeOf,
  type Finding,
  findingsOf,
  findingText,
  summaryOf,
} from '../../../src/cli/commands/validate.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'validate-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const put = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};

const textsOf = (findings: readonly Finding[]): readonly string[] =>
  findings.map((finding) => findingText(finding).replace(`${folder}/`, ''));

const service = (name: string, port: string, ip = '192.0.2.10'): string => `apiVersion: v1
kind: Service
metadata:
  name: ${name}
  namespace: default
spec:
  clusterIP: ${ip}
  ports:
  - port: ${port}
`;

test('the examples are valid', async () => {
  for (const name of readdirSync('examples', { withFileTypes: true })) {
    if (name.isDirectory()) expect(await findingsOf([join('examples', name.name)], {})).toEqual([]);
  }
  expect(exitCodeOf([], true)).toBe(0);
  expect(summaryOf([])).toBe('valid');
});

test('objects, text and kinds of a folder, each with file and line', async () => {
  put('a.yaml', service('zero', '0'));
  put('b.yaml', 'kind: [broken\n');
  put('c.yaml', 'apiVersion: v1\nkind: Gizmo\nmetadata:\n  name: x\n');
  put('d.yaml', service('good', '80'));
  const findings = await findingsOf([folder], {});
  expect(textsOf(findings)).toEqual([
    expect.stringMatching(
      /^a\.yaml:9: error: Service default\/zero: spec\.ports\[0\]\.port: .*65535/,
    ),
    expect.stringMatching(/^b\.yaml:\d+: error: /),
    expect.stringMatching(/^c\.yaml:2: error: .*Gizmo/),
    expect.stringMatching(/^d\.yaml:8: warning: .*has no selector/),
  ]);
  expect(exitCodeOf(findings, false)).toBe(1);
  expect(summaryOf(findings)).toBe('3 errors, 1 warning');
});

test('all errors of an object, in the order of their lines', async () => {
  const text = service('web', 'eighty', '10.0.0.999').replace('spec:', 'spec:\n  type: Foo');
  put('a.yaml', `${text}    protocol: tcp\n`);
  expect(textsOf(await findingsOf([folder], {}))).toEqual([
    expect.stringMatching(/^a\.yaml:7: error: .*spec\.type/),
    expect.stringMatching(/^a\.yaml:8: error: .*spec\.clusterIP/),
    expect.stringMatching(/^a\.yaml:10: error: .*spec\.ports\[0\]\.port: /),
    expect.stringMatching(/^a\.yaml:11: error: .*spec\.ports\[0\]\.protocol: /),
  ]);
});

const slice = (owner: string, port: string, family = 'IPv4', address = '10.1.1.5'): string =>
  `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: ${owner}-1
  labels: {kubernetes.io/service-name: ${owner}}
addressType: ${family}
ports: [{name: ${port}, port: 8080}]
endpoints: [{addresses: ['${address}']}]
`;

test('what a Service asks for and does not get: each by its own text, as a warning', async () => {
  const named = (name: string, ip: string, more = ''): string =>
    service(name, '80', ip).replace('  ports:\n  -', `${more}  ports:\n  - name: http\n   `);
  put('a-port.yaml', `${named('a', '10.0.0.1')}---\n${slice('a', 'web')}`);
  put(
    'b-family.yaml',
    `${named('b', '10.0.0.2')}---\n${slice('b', 'http', 'IPv6', '2001:db8::5')}`,
  );
  const external = "  externalIPs: ['2001:db8::1']\n";
  put('c-external.yaml', `${named('c', '10.0.0.3', external)}---\n${slice('c', 'http')}`);
  put('d-manual.yaml', named('d', '10.0.0.4'));
  put('e-selected.yaml', named('e', '10.0.0.5', '  selector: {app: e}\n'));
  put('f-good.yaml', `${named('f', '10.0.0.6')}---\n${slice('f', 'http')}`);
  put(
    'g-foreign.yaml',
    'apiVersion: apps/v1\nkind: Deployment\n---\napiVersion: v1\nkind: Endpoints\n',
  );
  const findings = await findingsOf([folder], {});
  expect(
    textsOf(findings).map((text) => text.replace(/ Service default\/.: spec/, ' spec')),
  ).toEqual([
    'a-port.yaml:8: warning: spec.ports: the Service has port "http" (TCP), its EndpointSlices have port "web" (TCP): name and protocol must be the same',
    'b-family.yaml:8: warning: spec.ports: its EndpointSlices have the addressType IPv6, this frontend is of IPv4',
    'c-external.yaml:8: warning: spec.externalIPs[0]: 2001:db8::1 is not served: the Service has no ClusterIP of IPv6; name IPv6 in spec.ipFamilies',
    'd-manual.yaml:8: warning: spec.ports: the Service has no selector, so nobody writes EndpointSlices for it: write one with the label kubernetes.io/service-name: d',
    'e-selected.yaml:9: warning: spec.ports: no EndpointSlice has the label kubernetes.io/service-name: e: the control plane has written none, or none is in the folder',
    'g-foreign.yaml: note: objects of other kinds are not read: Deployment, Endpoints',
  ]);
  expect(exitCodeOf(findings, false)).toBe(0);
  expect(exitCodeOf(findings, true)).toBe(1);
  expect(summaryOf(findings)).toBe('0 errors, 5 warnings');
  const notes = findings.filter(({ severity }) => severity === 'note');
  expect(exitCodeOf(notes, true)).toBe(0);
  expect(summaryOf(notes)).toBe('valid');
});

test('a file is checked by itself', async () => {
  const good = put('good.yaml', service('good', '80'));
  const bad = put('bad.yaml', service('bad', '80', '192.0.2.999'));
  expect(await findingsOf([good], {})).toEqual([]);
  expect(textsOf(await findingsOf([bad], {}))).toEqual([
    expect.stringMatching(/^bad\.yaml:7: error: .*192\.0\.2\.999/),
  ]);
  const note = put('notes.txt', service('bad', '0'));
  expect(textsOf(await findingsOf([note], {}))).toEqual([
    'notes.txt: error: not a manifest: the file name must end in .yaml, .yml or .json',
  ]);
});

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';

test('a configuration file: errors with their lines, and manifests are still checked', async () => {
  const config = put('config', `${HEAD}conntrack:\n  min: many\nmode: x\n`);
  put('a.yaml', service('zero', '0'));
  expect(textsOf(await findingsOf([folder], { config }))).toEqual([
    expect.stringMatching(/^config:\d: error: /),
    expect.stringMatching(/^config:\d: error: /),
    expect.stringMatching(/^a\.yaml:9: error: /),
  ]);
});

test('warnings fail only with --strict', async () => {
  const config = put('config', `${HEAD}mode: ipvs\n`);
  const findings = await findingsOf([], { config });
  expect(textsOf(findings)).toEqual([
    expect.stringMatching(/^config:3: warning: mode: remapped to auto/),
  ]);
  expect([exitCodeOf(findings, false), exitCodeOf(findings, true)]).toEqual([0, 1]);
  expect(summaryOf(findings)).toBe('0 errors, 1 warning');
});

test('an unknown field of a manifest is a warning', async () => {
  const file = put('web.yaml', `${service('web', '80')}  prots: []\n`);
  const findings = await findingsOf([file], {});
  expect(textsOf(findings)).toEqual([
    'web.yaml:10: warning: Service default/web: spec.prots: unknown field',
  ]);
  expect(exitCodeOf(findings, false)).toBe(0);
});

test('settings decide what is valid: --no-external-ips', async () => {
  const text = service('ext', '80').replace('  ports:', '  externalIPs: [203.0.113.9]\n  ports:');
  const file = put('ext.yaml', text);
  expect(await findingsOf([file], {})).toEqual([]);
  expect((await findingsOf([file], { 'external-ips': 'false' })).length).toBeLessThanOrEqual(1);
});

test.each([
  { paths: [], flags: {}, says: /name manifests, or a configuration file/ },
  { paths: ['/nonexistent/x'], flags: {}, says: /does not exist/ },
  { paths: ['examples'], flags: { 'cluster-cidr': 'x' }, says: /--cluster-cidr: must be CIDRs/ },
])('usage: $says', async ({ paths, flags, says }) => {
  await expect(findingsOf(paths, flags)).rejects.toThrow(says);
});
