// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { type Column, list, table } from '../../../src/cli/output.ts';
import { statusText } from '../../../src/cli/status.ts';
import { textLine } from '../../../src/log.ts';
import type { Status } from '../../../src/observe/status.ts';

const rows = [
  { name: 'web', port: 80 },
  { name: 'a-long-name', port: 8080 },
];
const columns: readonly Column<(typeof rows)[number]>[] = [
  { title: 'NAME', text: (row) => row.name },
  { title: 'PORT', text: (row) => String(row.port), isWide: true },
];

test('columns line up, and wide ones are shown when asked for', () => {
  expect(table(rows, columns, false)).toBe('NAME\nweb\na-long-name');
  expect(table(rows, columns, true)).toBe(
    'NAME          PORT\nweb           80\na-long-name   8080',
  );
});

test('JSON and YAML carry kind and items, also when there are none', () => {
  expect(JSON.parse(list('XList', rows, columns, 'json'))).toEqual({
    apiVersion: 'fairlead.io/v1',
    kind: 'XList',
    items: rows,
  });
  expect(list('XList', [], columns, 'yaml')).toBe(
    'apiVersion: fairlead.io/v1\nkind: XList\nitems: []',
  );
  expect(list('XList', [], columns, 'table')).toBe('none');
});

const STATUS: Status = {
  apiVersion: 'fairlead.io/v1',
  kind: 'Status',
  version: '1.0.0',
  pid: 7,
  node: 'n1',
  kernel: '6.1.0',
  startedAt: '2026-01-01T00:00:00.000Z',
  isReady: true,
  readyAt: '2026-01-01T00:00:01.000Z',
  cgroupRoot: '/cg',
  bpfRoot: '/bpf',
  hooks: [{ name: 'fl_connect4', isTakenOver: true, insns: 900 }],
  refusesWith: 'ECONNREFUSED',
  source: { kind: 'manifests', location: '/m' },
  sync: {
    count: 2,
    lastAt: undefined,
    lastDurationMs: 1.25,
    failed: [{ id: '10.96.0.1:80/TCP', service: 'default/web', reason: 'fl_frontend4 is full' }],
    driftTotal: 0,
    lastAuditAt: undefined,
  },
  services: 1,
  tables: [{ name: 'fl_frontend4', used: 1, capacity: 2 }],
  reasons: { TRANSLATED: 5 },
  problems: [
    {
      file: '/m/a.yaml',
      line: 3,
      object: undefined,
      field: undefined,
      reason: 'unknown kind Pod',
    },
  ],
};

test('status puts what failed and what was refused where it is seen', () => {
  const text = statusText(STATUS, true);
  expect(text).toMatch(/^Sync: +NOT in step/m);
  expect(text).toMatch(/^Failing: +default\/web 10\.96\.0\.1:80\/TCP: fl_frontend4 is full$/m);
  expect(text).toMatch(/^Refused: +\/m\/a\.yaml:3: unknown kind Pod$/m);
  expect(text).toMatch(/^Calls: +TRANSLATED 5$/m);
  expect(statusText({ ...STATUS, isReady: false }, false)).toMatch(/^starting \(pid 7\)/);
});

test('status of a cluster: which server, why this one, when each kind was heard last, what is wrong', () => {
  const kind = 'Service' as const;
  const watch = { ...{ kind, state: 'watching', objects: 12, aliveAgeMs: 2_900 } } as const;
  const cluster = {
    server: 'https://10.0.0.1:6443',
    why: '--kubeconfig /k names https://10.0.0.1:6443',
    servers: ['https://10.0.0.1:6443', 'https://10.0.0.2:6443'],
    watches: [
      watch,
      { ...watch, kind: 'Node', state: 'waiting', objects: 1, aliveAgeMs: 61_000 },
      { ...watch, kind: 'EndpointSlice', state: 'listing', aliveAgeMs: undefined },
      { ...watch, kind: 'ServiceCIDR', state: 'absent' },
    ],
  };
  const source = { kind: 'cluster', location: '', cluster } as unknown as Status['source'];
  const reason = 'API server https://10.0.0.1:6443: HTTP 401: Unauthorized';
  const nowhere = { object: undefined, field: undefined, file: undefined, line: undefined };
  const status = { ...STATUS, source, problems: [{ ...nowhere, reason, kinds: 'all' }] };
  const lines = [
    'Source:    cluster https://10.0.0.1:6443 (and 1 more to turn to)',
    'Chosen:    --kubeconfig /k names https://10.0.0.1:6443',
    'Watches:   Service 12 objects, heard 3 s ago, Node 1 object, heard 61 s ago (waiting), EndpointSlice never heard, ServiceCIDR not served here',
    'Problem:   API server https://10.0.0.1:6443: HTTP 401: Unauthorized (kinds: all)',
  ];
  expect(statusText(status, false).split('\n')).toEqual(expect.arrayContaining(lines));
  expect(
    statusText({ ...status, isReady: false }, false)
      .split('\n')
      .slice(1),
  ).toEqual(lines);
});

test('log lines for people: letter, time, message, fields', () => {
  const json =
    '{"level":"warn","time":"2026-11-21T13:20:58.123Z","msg":"input refused","file":"a b","line":3}\n';
  expect(textLine(json)).toBe('W1121 13:20:58.123 input refused file="a b" line=3\n');
});
