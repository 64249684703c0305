// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { lineFinder } from '../../../../src/lib/yaml/lines.ts';
import { refText } from '../../../../src/model/object-ref.ts';
import { problemText } from '../../../../src/model/problem.ts';
import { parseManifests } from '../../../../src/source/manifests/parse.ts';
import { service } from './folder.ts';

/** Objects and problems of a text, in one list of lines. */
function summary(text: string): readonly string[] {
  const parsed = parseManifests('f', text);
  if (!parsed.ok) return [problemText(parsed.problem)];
  return [...parsed.manifests.map(({ ref }) => refText(ref)), ...parsed.problems.map(problemText)];
}

/** What other programs do meanwhile does not count. */
function cpuMsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

const json = (value: unknown): string => JSON.stringify(value, undefined, 2);
const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' } };

const rows: readonly { name: string; text: string; gives: readonly string[] }[] = [
  { name: 'one document', text: service('web'), gives: ['Service default/web'] },
  {
    name: 'several documents, empty ones between',
    text: `---\n# nothing\n---\n${service('a')}---\n${service('b')}---\n`,
    gives: ['Service default/a', 'Service default/b'],
  },
  {
    name: 'a namespace of its own',
    text: 'apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: shop}\n',
    gives: ['Service shop/a'],
  },
  { name: 'cluster-scoped kinds have no namespace', text: json(node), gives: ['Node n1'] },
  {
    name: 'a v1 List of different kinds',
    text: json({
      apiVersion: 'v1',
      kind: 'List',
      items: [node, { ...node, metadata: { name: 'n2' } }],
    }),
    gives: ['Node n1', 'Node n2'],
  },
  {
    name: 'a typed list whose items do not repeat their kind',
    text: json({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSliceList',
      items: [{ metadata: { name: 'web-1', namespace: 'x' } }],
    }),
    gives: ['EndpointSlice x/web-1'],
  },
  {
    name: 'an empty list',
    text: 'apiVersion: v1\nkind: ServiceList\nitems: []\n',
    gives: [],
  },
  {
    name: 'a kind no proxy reads, and its neighbours go on',
    text: `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n---\n${service('web')}`,
    gives: ['Service default/web', 'f: objects of other kinds are not read: Deployment'],
  },
  {
    name: 'a wrong apiVersion',
    text: 'kind: EndpointSlice\napiVersion: discovery.k8s.io/v1beta1\nmetadata: {name: x}\n',
    gives: [
      'f:2: apiVersion must be discovery.k8s.io/v1 for kind EndpointSlice, not "discovery.k8s.io/v1beta1"',
    ],
  },
  {
    name: 'a missing name, with the line of metadata',
    text: 'apiVersion: v1\nkind: Service\n\nmetadata:\n  labels: {}\n',
    gives: ['f:4: Service without metadata.name'],
  },
  {
    name: 'a name that YAML takes for a number',
    text: 'apiVersion: v1\nkind: Service\nmetadata:\n  labels: {}\n  name: 42\n',
    gives: ['f:5: metadata.name must be text, not 42: quote it'],
  },
  {
    name: 'one line for all objects of other kinds, custom resources among them',
    text: `${[
      'apps/v1 Deployment',
      'v1 Endpoints',
      'v1 ConfigMap',
      'v1 ConfigMap',
      'cert-manager.io/v1 Issuer',
    ]
      .map((one) => one.split(' '))
      .map(([api, kind]) => `apiVersion: ${api}\nkind: ${kind}\n---\n`)
      .join('')}${service('web')}`,
    gives: [
      'Service default/web',
      'f: objects of other kinds are not read: ConfigMap, Deployment, Endpoints, Issuer',
    ],
  },
  {
    name: 'kinds of other groups of Kubernetes, and kinds of ours in groups of others',
    text: `${[
      'kustomize.config.k8s.io/v1beta1 Kustomization',
      'gateway.networking.k8s.io/v1 HTTPRoute',
      'autoscaling.k8s.io/v1 VerticalPodAutoscaler',
      'storage.k8s.io/v1 CSIDriver',
      'serving.knative.dev/v1 Service',
      'management.cattle.io/v3 Node',
    ]
      .map((one) => one.split(' '))
      .map(([api, kind]) => `apiVersion: ${api}\nkind: ${kind}\nmetadata: {name: web}\n---\n`)
      .join('')}${service('web')}`,
    gives: [
      'Service default/web',
      'f: objects of other kinds are not read: CSIDriver, HTTPRoute, Kustomization, Node (management.cattle.io/v3), Service (serving.knative.dev/v1), VerticalPodAutoscaler',
    ],
  },
  ...['v11', 'v1beta', 'core/v1', 'apps/v1', 'networking.k8s.io/v1', ''].map((apiVersion) => ({
    name: `a Service with the misspelt apiVersion "${apiVersion}"`,
    text: `apiVersion: ${apiVersion || '""'}\nkind: Service\nmetadata: {name: web}\n`,
    gives: [`f:1: apiVersion must be v1 for kind Service, not "${apiVersion}"`],
  })),
  {
    name: 'a Service without apiVersion',
    text: 'kind: Service\nmetadata: {name: web}\n',
    gives: ['f:1: apiVersion must be v1 for kind Service, not undefined'],
  },
  ...['discovery.k8.io/v1', 'discover.k8s.io/v1'].map((apiVersion) => ({
    name: `an EndpointSlice with the misspelt group of ${apiVersion}`,
    text: `apiVersion: ${apiVersion}\nkind: EndpointSlice\nmetadata: {name: web}\n`,
    gives: [
      `f:1: apiVersion must be discovery.k8s.io/v1 for kind EndpointSlice, not "${apiVersion}"`,
    ],
  })),
  {
    name: 'a misspelt kind in a group of ours',
    text: 'apiVersion: discovery.k8s.io/v1\nkind: EndpointSlices\nmetadata: {name: web}\n',
    gives: [
      'f:2: kind "EndpointSlices" is not supported: use one of Service, EndpointSlice, Node, ServiceCIDR',
    ],
  },
  {
    name: 'a kind that may be a misspelt Service',
    text: 'apiVersion: v1\nkind: Servise\nmetadata: {name: web}\n',
    gives: [
      'f:2: kind "Servise" is not supported: use one of Service, EndpointSlice, Node, ServiceCIDR',
    ],
  },
  {
    name: 'text instead of an object',
    text: '---\nhello\n',
    gives: ['f:2: must be an API object, not "hello"'],
  },
  {
    name: 'a list instead of an object',
    text: '- a\n- b\n',
    gives: ['f:1: must be an API object, not a list'],
  },
  {
    name: 'a bad item of a list, with its own line',
    text: `apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n1}\n- apiVersion: v1\n  kind: Pod\n`,
    gives: ['Node n1', 'f: objects of other kinds are not read: Pod'],
  },
  {
    name: 'broken YAML, with its line',
    text: 'a: 1\nb: [1,\nc: }\n',
    gives: ['f:3: missed comma between flow collection entries'],
  },
  {
    name: 'broken JSON, with its line',
    text: '{\n  "kind": "Node",\n  "metadata" {}\n}',
    gives: ['f:3: missed comma between flow collection entries'],
  },
  {
    name: 'the same key twice',
    text: 'kind: Node\nkind: Node\n',
    gives: ['f:2: duplicated mapping key'],
  },
  { name: 'an empty file', text: ' \n', gives: ['f: the file is empty: add objects or delete it'] },
];

describe('parseManifests', () => {
  for (const { name, text, gives } of rows) {
    test(name, () => expect(summary(text)).toEqual(gives));
  }

  test('fills in the default namespace, and nothing else', () => {
    const parsed = parseManifests('f', service('web'));
    expect(parsed.ok && parsed.manifests[0]!.object).toEqual({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'web', namespace: 'default' },
      spec: { ports: [{ port: 80 }] },
    });
  });

  test('timestamps stay text, as in JSON', () => {
    const text = `${service('web')}x: 2024-01-01T00:00:00Z\n`;
    const parsed = parseManifests('f', text);
    expect(parsed.ok && parsed.manifests[0]!.object['x']).toBe('2024-01-01T00:00:00Z');
  });

  test('aliases work, but not as bombs', () => {
    const level = (n: number): string =>
      `a${n}: &a${n} [${Array.from({ length: 9 }, () => `*a${n - 1}`).join(', ')}]\n`;
    const bomb = `a0: &a0 [x, x]\n${[1, 2, 3, 4, 5, 6, 7, 8, 9].map(level).join('')}`;
    expect(summary(bomb)).toEqual([
      'f: aliases expand to more than the file holds: write the values out',
    ]);
    expect(summary('a: &a [*a]\n')).toEqual([
      'f: aliases expand to more than the file holds: write the values out',
    ]);
    expect(summary(`${service('web')}x: &x {a: 1}\ny: *x\n`)).toEqual(['Service default/web']);
  });

  test('excessive nesting is rejected, in YAML and in JSON', () => {
    expect(summary(`{"a":${'['.repeat(200_000)}`)[0]).toContain('nesting exceeded');
    expect(summary(`a: ${'['.repeat(200_000)}`)[0]).toContain('nesting exceeded');
  });

  test('500 slices of 100 endpoints are parsed without a noticeable delay', () => {
    const slice = (index: number): string => {
      const endpoints = Array.from(
        { length: 100 },
        (_, n) =>
          `- addresses: [10.${index % 250}.${n}.1]\n  conditions: {ready: true}\n  nodeName: n1\n`,
      );
      return `apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: s${index}\naddressType: IPv4\nendpoints:\n${endpoints.join('')}`;
    };
    const text = Array.from({ length: 500 }, (_, index) => slice(index)).join('---\n');
    const start = process.cpuUsage();
    expect(summary(text)).toHaveLength(500);
    expect(cpuMsSince(start)).toBeLessThan(5_000);
  });

  test('the lines of ten thousand rejected objects are found in one pass', () => {
    const text = Array.from({ length: 10_000 }, () => 'kind: Prod\napiVersion: v1\n').join('---\n');
    const start = process.cpuUsage();
    const lines = summary(text);
    expect(lines[9_999]).toMatch(/^f:29998: /);
    expect(cpuMsSince(start)).toBeLessThan(5_000);
  });
});

describe('lineFinder', () => {
  const yaml = [
    '# a comment', // 1
    'kind: List', // 2
    'items:', // 3
    '- kind: Service', // 4
    '  spec:', // 5
    '    ports:', // 6
    '    - name: http', // 7
    '      port: 80', // 8
    '    - {name: dns,', // 9
    '       port: 70000}', // 10
    '    externalIPs: []', // 11
    '---', // 12
    'metadata:', // 13
    '  labels:', // 14
    '    a.b/c: x', // 15
    'text: |', // 16
    '  kind: not a key', // 17
    'spec: {}', // 18
  ].join('\n');
  const fields: readonly [at: string, field: string, line: number | undefined][] = [
    ['0.0', '', 4],
    ['0.0', 'kind', 4],
    ['0.0', 'spec.ports[0].port', 8],
    ['0.0', 'spec.ports[0]', 7],
    ['0.0', 'spec.ports[1].port', 10],
    ['0.0', 'spec.ports[7].port', 6],
    ['0.0', 'spec.externalIPs', 11],
    ['0.0', 'spec.clusterIP', 5],
    ['0.0', 'status', 4],
    ['1', 'metadata.labels["a.b/c"]', 15],
    ['1', 'metadata.labels.a.b/c', 14],
    ['1', 'spec', 18],
    ['1', 'kind', 13],
    ['2', 'kind', undefined],
    ['0.1', 'kind', undefined],
  ];
  for (const [at, field, line] of fields) {
    test(`${at} ${field || '(the object)'} -> ${line}`, () => {
      expect(lineFinder(yaml)(at, field)).toBe(line);
    });
  }

  test('JSON, indented with tabs', () => {
    const text = JSON.stringify(
      { kind: 'List', items: [{ spec: { ports: [{ port: 1 }, { port: 70000 }] } }] },
      undefined,
      '\t',
    );
    const lines = text.split('\n');
    expect(lineFinder(text)('0.0', 'spec.ports[1].port')).toBe(
      lines.findIndex((line) => line.includes('70000')) + 1,
    );
  });
});
