// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { type Report, statusText } from '../../../../src/cli/view/status-text.ts';
import { BPF, type Capabilities, IPTABLES } from '../../../../src/engines/capabilities.ts';
import { limitationsOf } from '../../../../src/engines/limitations.ts';
import { countFrontends, healthOf } from '../../../../src/observe/health.ts';
import type { Status } from '../../../../src/observe/status.ts';
import { failedEntry } from '../../../support/dataplane/failed-entry.ts';

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
  dataplanes: ['bpf'],
  limitations: [],
  cgroupRoot: '/cg',
  bpfRoot: '/bpf',
  hooks: [{ name: 'fl_connect4', isAdopted: true, insns: 900 }],
  refusesWith: 'ECONNREFUSED',
  refused: [],
  devices: [],
  source: { kind: 'manifests', location: '/m' },
  sync: {
    count: 2,
    lastAt: '2026-01-01T00:00:02.000Z',
    lastDurationMs: 1.25,
    failed: [failedEntry()],
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

const LIMIT = {
  service: 'default/web',
  frontend: '*:30080/TCP',
  reason: 'not served by bpf: packets from outside',
};

function reportOf(change: Partial<Status> = {}): Report {
  const status = { ...STATUS, ...change };
  const frontends = countFrontends([{ kernelState: 'ok' }, { kernelState: 'missing' }]);
  return { ...status, frontends, health: healthOf(status, frontends), limits: [LIMIT] };
}

test('a degraded agent shows the reasons first, then each item', () => {
  expect(statusText(reportOf(), true).split('\n')).toEqual([
    'Health:     degraded: 1 rejected object or field, 1 entry failed to sync, 1 frontend missing',
    'Agent:      fairlead 1.0.0, pid 7, started 2026-01-01T00:00:00.000Z',
    'Node:       n1, Linux 6.1.0',
    'Source:     manifests /m',
    'Dataplane:  bpf, 1 hook on /cg, 1 adopted from the previous agent; refused connections return ECONNREFUSED',
    'Pins:       /bpf',
    'Services:   1, with 2 frontends (1 in sync, 1 missing)',
    'Sync:       2 syncs, last at 2026-01-01T00:00:02.000Z, took 1.3 ms',
    'Audit:      never',
    'Capacity:   fullest map fl_frontend4, 1 of 2 entries (50%)',
    'Rejected:   /m/a.yaml:3: unknown kind Pod',
    'Failed:     default/web frontend 10.96.0.1:80/TCP: fl_frontend4 is full',
    'Limit:      default/web *:30080/TCP: not served by bpf: packets from outside',
    'Map:        fl_frontend4   1 of 2   IPv4 frontends, and an entry for the other ports of each ClusterIP',
    'Hook:       fl_connect4   900 instructions verified',
    'Calls:      TRANSLATED   5',
  ]);
});

test('what packet programs are loaded with has a line', () => {
  expect(statusText(reportOf({ packetFeatures: ['IPv4', 'IPv6'] }), false)).toContain(
    'Packets:    IPv4, IPv6\n',
  );
});

test('what processes of the node get is named, three of them', () => {
  const nodeProcesses = [1, 2, 3, 4].map((number) => ({
    ...{ service: `default/dns-${number}`, frontend: `10.96.0.${number}:53/UDP` },
  }));
  expect(statusText(reportOf({ nodeProcesses }), false)).toContain(
    'Listeners:  10.96.0.1:53/UDP of default/dns-1, 10.96.0.2:53/UDP of default/dns-2, 10.96.0.3:53/UDP of default/dns-3 + 1 more...: got by processes of this node, which listen there',
  );
});

const STALE = {
  way: 'SOCK_DESTROY',
  limits: [],
  destroyed: [
    { protocol: 'UDP', family: 'IPv4', count: 3 },
    { protocol: 'UDP', family: 'IPv6', count: 1 },
  ],
  ...{ connected: 0, served: 0, waiting: 0 },
  refused: 0,
  left: [],
} as const;

test.each([
  ['before the first pass', { ...STALE, way: undefined, destroyed: [] }, []],
  [
    'destroyed',
    STALE,
    ['Stale:      sockets whose endpoint is gone: 4 destroyed, by SOCK_DESTROY'],
  ],
  [
    'not everywhere',
    { ...STALE, limits: ["only those in the agent's own network namespace: why"] },
    [
      "Stale:      sockets whose endpoint is gone: 4 destroyed, by SOCK_DESTROY; only those in the agent's own network namespace: why",
    ],
  ],
  [
    'refused elsewhere',
    { ...STALE, limits: ["only those in the agent's own network namespace: why"], refused: 2 },
    [
      "Stale:      sockets whose endpoint is gone: 4 destroyed, by SOCK_DESTROY; only those in the agent's own network namespace: why; 2 of pods refused with their next datagram",
    ],
  ],
  [
    'that go on with another endpoint',
    { ...STALE, connected: 3, served: 2, waiting: 1 },
    [
      'Stale:      sockets whose endpoint is gone: 4 destroyed, by SOCK_DESTROY; 3 connected to another endpoint; 2 of pods served as packets; 1 of the node wait for an endpoint',
    ],
  ],
  [
    'by no means',
    { ...STALE, way: undefined, limits: ['this kernel cannot destroy sockets (why)'] },
    [
      'Stale:      sockets whose endpoint is gone: not destroyed; this kernel cannot destroy sockets (why)',
    ],
  ],
  [
    'not all',
    {
      ...STALE,
      left: [
        { reason: 'one', count: 1 },
        { reason: 'two', count: 2 },
        { reason: 'none', count: 0 },
      ],
    },
    [
      'Stale:      sockets whose endpoint is gone: 4 destroyed, by SOCK_DESTROY',
      'Warning:    1 stale socket was not destroyed: one',
      'Warning:    2 stale sockets were not destroyed: two',
      'Warning:    stale sockets were not destroyed: none',
    ],
  ],
])('stale sockets: %s', (_, staleSockets, expected) => {
  const lines = statusText(reportOf({ staleSockets }), false).split('\n');
  expect(lines.filter((line) => /^Stale:|stale socket/.test(line))).toEqual(expected);
});

test('a layer that the kernel refused is named with the reason', () => {
  const refused = [{ layer: 'packet layer', reason: 'the kernel refused a program: unknown func' }];
  const [health, ...others] = statusText(reportOf({ refused }), false).split('\n');
  expect(health).toContain('1 layer refused by the kernel');
  expect(others).toContain('Failed:     packet layer: the kernel refused a program: unknown func');
});

test('devices: how many have their programs, each with -o wide, failures always', () => {
  const device = {
    kind: 'veth',
    role: 'pod',
    isFailed: false,
    snat: {},
    ingress: [],
    egress: [],
  } as const;
  const devices: Status['devices'] = [
    {
      ...device,
      ...{ name: 'cali1', ifindex: 9, isAttached: true, reason: 'its peer is elsewhere' },
      ingress: ['fl_ingress', 'other'],
      egress: ['fl_egress'],
    },
    { ...device, name: 'cali2', ifindex: 10, isAttached: false, isFailed: true, reason: 'EBUSY' },
    {
      ...device,
      ...{ name: 'eth0', ifindex: 2, kind: undefined, role: 'uplink', reason: 'it is up' },
      isAttached: true,
      snat: { IPv4: '192.0.2.1', IPv6: '2001:db8::1' },
      xdp: { state: 'refused', reason: 'its driver lost 40 of 40 frames', sent: 8, lost: 40 },
    },
    {
      ...device,
      name: 'lo',
      ifindex: 1,
      kind: undefined,
      role: 'uplink',
      isAttached: false,
      reason: 'loopback',
    },
  ];
  const lines = (isWide: boolean) =>
    statusText(reportOf({ devices }), isWide)
      .split('\n')
      .filter((line) => /^Device|device/.test(line));
  expect(lines(false)).toEqual([
    'Health:     degraded: 1 rejected object or field, 1 entry failed to sync, 1 device without its programs, 1 frontend missing',
    'Devices:    2 of 4 attached, 1 failed',
    'Failed:     device cali2: EBUSY',
  ]);
  expect(lines(true).slice(3)).toEqual([
    "Device:     cali1   veth       pod      attached: its peer is elsewhere   SNAT with the node's address   ingress: fl_ingress, other   egress: fl_egress",
    'Device:     cali2   veth       -        not attached: EBUSY',
    'Device:     eth0    hardware   uplink   attached: it is up                SNAT 192.0.2.1, 2001:db8::1                                                     XDP refused: its driver lost 40 of 40 frames, 40 frames lost',
    'Device:     lo      loopback   -        not attached: loopback',
  ]);
});

test('each dataplane is named', () => {
  const text = statusText(reportOf({ dataplanes: ['bpf', 'iptables'] }), false);
  expect(text).toContain('Dataplane:  bpf + iptables, 1 hook on /cg');
});

test('limits are one line per reason and name some Services', () => {
  const limits = ['a', 'b', 'a', 'c', 'd'].map((service) => ({ ...LIMIT, service }));
  expect(statusText({ ...reportOf(), limits }, false)).toMatch(
    /^Limit: +not served by bpf: packets from outside: a, b, c \+ 1 more\.\.\.$/m,
  );
});

test('a starting agent is shown as such, even before it has a source', () => {
  expect(statusText(reportOf({ isReady: false }), false)).toMatch(
    /^Health: +starting: the initial sync is not complete\nAgent: +fairlead 1\.0\.0, pid 7/,
  );
  const early = { pid: 7, isReady: false } as Report;
  const health = healthOf(early, countFrontends([]));
  expect(statusText({ ...early, health, limits: [] }, false).split('\n')).toEqual([
    'Health:     starting: the initial sync is not complete',
    'Agent:      pid 7',
  ]);
});

test('a cluster: the server, why it was chosen, the last answer of each kind, problems', () => {
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
  const problems = [{ ...nowhere, reason, kinds: 'all' }];
  const lines = [
    'Source:     cluster https://10.0.0.1:6443 (1 more to fail over to)',
    'Chosen by:  --kubeconfig /k names https://10.0.0.1:6443',
    'Watch:      Service: 12 objects, last answer 3 s ago',
    'Watch:      Node: 1 object, last answer 61 s ago (waiting)',
    'Watch:      EndpointSlice: no answer yet',
    'Watch:      ServiceCIDR: not served by this API server',
    'Problem:    API server https://10.0.0.1:6443: HTTP 401: Unauthorized (kinds: all)',
  ];
  for (const isReady of [true, false]) {
    const text = statusText(reportOf({ source, problems, isReady }), false);
    expect(text.split('\n')).toEqual(expect.arrayContaining(lines));
  }
});

test('what kube-proxy has left is a warning', () => {
  const report = { ...reportOf(), warnings: ['kube-proxy has left 2 jumps'] };
  expect(statusText(report, false)).toContain('Warning:    kube-proxy has left 2 jumps');
});

test('what the dataplanes in use cannot do is a line for each limitation', () => {
  const text = (...all: readonly Capabilities[]): string => {
    const dataplanes = all.map(({ dataplane }) => dataplane);
    return statusText(reportOf({ dataplanes, limitations: all.flatMap(limitationsOf) }), false);
  };
  const lines = `Limit:      iptables: connections are not counted or listed
Limit:      iptables: no cgroup can be bypassed
Limit:      iptables: session affinity remembers 100 clients for each endpoint
Limit:      iptables: backends are chosen at random instead of by round-robin, least-connections, source-hash, maglev
Limit:      iptables: there is no direct return: what goes to other nodes is masqueraded
`;
  expect(text(IPTABLES)).toContain(lines);
  expect(text(BPF, IPTABLES)).toContain(lines);
  expect(text(BPF)).not.toMatch(/^Limit: +(bpf|iptables):/m);
});

test('direct return: how many nodes take part, and how they know each other', () => {
  const text = (cookies: NonNullable<Status['directReturn']>['cookies']) => {
    const directReturn = { willing: 3, known: 4, ...(cookies && { cookies }) };
    const lines = statusText(reportOf({ directReturn }), false).split('\n');
    return lines.filter((line) => /^(Direct|Cookies):/.test(line));
  };
  const direct = 'Direct:     return: 3 of 4 other nodes take requests';
  expect(text(undefined)).toEqual([direct]);
  expect(text({ sent: 'none', taken: ['none'] })).toEqual([
    direct,
    'Cookies:    none: requests are taken from whoever uses the address of a node; set --direct-return-secret-file',
  ]);
  const coming = 'Cookies:    none sent, 5f0c1d2e and none taken';
  const both = ['5f0c1d2e', 'none'];
  expect(text({ sent: 'none', taken: both })[1]).toBe(coming);
  expect(text({ sent: 'none', taken: both, problem: '/f is not used: it has no line' })[1]).toBe(
    `${coming}; /f is not used: it has no line`,
  );
  expect(text({ sent: '5f0c1d2e', taken: ['5f0c1d2e'] })[1]).toBe(
    'Cookies:    5f0c1d2e sent, 5f0c1d2e taken',
  );
});
