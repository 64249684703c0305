// SPDX-License-Identifier: Apache-2.0
// /healthz, /livez, /readyz: the rules with a clock of ours, the bytes, and one real server.
import { afterEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../../../src/lib/clock.ts';
import { isNodeEligible } from '../../../../src/model/node/eligibility.ts';
import { createProxyHealth, judge } from '../../../../src/server/health/proxy-health.ts';
import { goTime, healthHandler } from '../../../../src/server/health/server.ts';
import { type Listener, listenOnce } from '../../../../src/server/http/listen.ts';
import { ask } from '../http/ask.ts';

const TIMEOUT_MS = 60_000;
const NEVER = undefined;
const clockOf = (now: () => number): Pick<Clock, 'nowMs' | 'monotonicMs'> => ({
  nowMs: now,
  monotonicMs: now,
});

describe('a family', () => {
  const rows: readonly (readonly [
    name: string,
    lastUpdatedMs: number | undefined,
    oldestPendingMs: number | undefined,
    isHealthy: boolean,
  ])[] = [
    ['is healthy idle, for ever', 0, NEVER, true],
    ['is healthy with a change that is not late yet', 0, 1_000_000 - 59_999, true],
    ['is unhealthy with a change as old as the timeout', 0, 1_000_000 - 60_000, false],
    ['is unhealthy though it was never updated', NEVER, 0, false],
  ];
  test.each(rows)('%s', (_, lastUpdatedMs, oldestPendingMs, isHealthy) => {
    const verdict = judge(
      new Map([['IPv4', { lastUpdatedMs, oldestPendingMs }]]),
      1_000_000,
      TIMEOUT_MS,
    );
    expect(verdict.isHealthy).toBe(isHealthy);
    expect(verdict.families.get('IPv4')).toEqual({ isHealthy, lastUpdatedMs });
  });
});

test('one late family makes the proxy unhealthy; the newest time of all is its time', () => {
  const verdict = judge(
    new Map([
      ['IPv6', { lastUpdatedMs: 7, oldestPendingMs: 0 }],
      ['IPv4', { lastUpdatedMs: 5, oldestPendingMs: NEVER }],
    ]),
    TIMEOUT_MS,
    TIMEOUT_MS,
  );
  expect(verdict).toMatchObject({ isHealthy: false, lastUpdatedMs: 7 });
  expect([...verdict.families.keys()]).toEqual(['IPv4', 'IPv6']);
});

test('the first unprogrammed change counts, and only a success clears it', () => {
  let now = 0;
  const health = createProxyHealth(
    TIMEOUT_MS,
    clockOf(() => now),
  );
  health.updated('IPv4');
  health.queued('IPv4');
  now = 30_000;
  health.queued('IPv4');
  now = 60_000;
  expect(health.verdict().isHealthy).toBe(false);
  health.updated('IPv4');
  expect(health.verdict()).toMatchObject({ isHealthy: true, lastUpdatedMs: 60_000 });
  now = 600_000;
  expect(health.verdict().isHealthy).toBe(true);
});

test.each([86_400_000, -86_400_000])(
  'a wall clock set by %i ms makes no change late or timely',
  (jumpMs) => {
    let wall = Date.parse('2026-01-02T03:04:05Z');
    let monotonic = 0;
    const clock = { nowMs: () => wall, monotonicMs: () => monotonic };
    const health = createProxyHealth(TIMEOUT_MS, clock);
    health.queued('IPv4');
    wall += jumpMs;
    monotonic = TIMEOUT_MS - 1;
    expect(health.verdict().isHealthy).toBe(true);
    monotonic = TIMEOUT_MS;
    expect(health.verdict().isHealthy).toBe(false);
    health.updated('IPv4');
    expect(health.verdict()).toMatchObject({ isHealthy: true, lastUpdatedMs: wall });
  },
);

test.each([
  ['2026-01-02T03:04:05.000Z', '2026-01-02T03:04:05Z'],
  ['2026-01-02T03:04:00.120Z', '2026-01-02T03:04:00.12Z'],
  ['2026-01-02T03:04:10.007Z', '2026-01-02T03:04:10.007Z'],
])('Go prints %s as %s', (iso, out) => {
  expect(goTime(Date.parse(iso))).toBe(out);
});

const taint = (key: string) => ({ spec: { taints: [{ key: 'other' }, { key, effect: 'X' }] } });
const nodes: readonly (readonly [name: string, node: unknown, isEligible: boolean])[] = [
  ['a plain node', { metadata: {}, spec: {} }, true],
  ['a node nobody knows', undefined, false],
  [
    'a node that is being deleted',
    { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } },
    false,
  ],
  ['a node the autoscaler takes away', taint('ToBeDeletedByClusterAutoscaler'), false],
  ['a node with other taints', taint('DeletionCandidateOfClusterAutoscaler'), true],
  ['a cordoned node', { spec: { unschedulable: true } }, true],
  [
    'an excluded node',
    { metadata: { labels: { 'node.kubernetes.io/exclude-from-external-load-balancers': '' } } },
    true,
  ],
  ['a node with taints nobody can read', { spec: { taints: 'x' } }, true],
];
test.each(nodes)('%s: eligible %s', (_, node, isEligible) => {
  expect(isNodeEligible(node)).toBe(isEligible);
});

describe('the server', () => {
  let listener: Listener | undefined;
  afterEach(() => listener?.close());

  async function serving(isReady = false) {
    let now = Date.parse('2026-01-02T03:04:05.600Z');
    const health = createProxyHealth(
      TIMEOUT_MS,
      clockOf(() => now),
    );
    const answers: string[] = [];
    const onRequest = healthHandler({
      health,
      isReady: () => isReady,
      onResponse: (probe, status) => answers.push(`${probe} ${status}`),
    });
    listener = await listenOnce({ host: '127.0.0.1', port: 0, onRequest });
    const { port } = listener;
    return {
      health,
      answers,
      pass: (ms: number) => {
        now += ms;
      },
      ask: (path: string, method?: string) => ask(port, path, { method }),
    };
  }

  test('a healthy proxy on an eligible node: exact bodies and headers', async () => {
    const { health, ask: get, answers, pass } = await serving();
    health.setNode(true);
    health.updated('IPv6');
    health.updated('IPv4');
    pass(1400);
    const healthz = await get('/healthz?verbose');
    expect(healthz.status).toBe(200);
    expect(healthz.headers).toMatchObject({
      'content-type': 'application/json',
      'x-content-type-options': 'nosniff',
    });
    const status =
      '"status":{"IPv4":{"lastUpdated":"2026-01-02T03:04:05.6Z","healthy":true},"IPv6":{"lastUpdated":"2026-01-02T03:04:05.6Z","healthy":true}}';
    const times = '"lastUpdated":"2026-01-02T03:04:07Z","currentTime":"2026-01-02T03:04:07Z"';
    expect(healthz.body).toBe(`{${times},"nodeEligible":true,"healthy":true,${status}}`);
    expect((await get('/livez', 'POST')).body).toBe(`{${times},"healthy":true,${status}}`);
    expect(answers).toEqual(['healthz 200', 'livez 200']);
  });

  test('a node on its way out: /healthz 503 with the real time, /livez 200', async () => {
    const { health, ask: get, pass, answers } = await serving();
    health.updated('IPv4');
    pass(1000);
    const healthz = await get('/healthz');
    expect(healthz.status).toBe(503);
    expect(JSON.parse(healthz.body)).toMatchObject({
      lastUpdated: '2026-01-02T03:04:05.6Z',
      currentTime: '2026-01-02T03:04:06.6Z',
      nodeEligible: false,
      healthy: true,
    });
    expect((await get('/livez')).status).toBe(200);
    expect(answers).toEqual(['healthz 503', 'livez 200']);
  });

  test('a late family: both 503, and the body says which', async () => {
    const { health, ask: get, pass } = await serving();
    health.setNode(true);
    health.updated('IPv4');
    health.queued('IPv6');
    pass(TIMEOUT_MS);
    for (const path of ['/healthz', '/livez']) {
      const { status, body } = await get(path);
      expect(status).toBe(503);
      expect(JSON.parse(body)).toMatchObject({
        healthy: false,
        status: {
          IPv4: { healthy: true },
          IPv6: { healthy: false, lastUpdated: '0001-01-01T00:00:00Z' },
        },
      });
    }
  });

  test('before anything happened there is no status', async () => {
    const { ask: get } = await serving();
    const { body } = await get('/livez');
    expect(JSON.parse(body)).not.toHaveProperty('status');
  });

  test.each([
    [true, 200, '{"ready":true}'],
    [false, 503, '{"ready":false}'],
  ])('/readyz with first sync done: %s', async (isReady, status, body) => {
    const { ask: get } = await serving(isReady);
    expect(await get('/readyz')).toMatchObject({ status, body });
  });

  test.each(['/', '/foo', '/healthz/', '/metrics'])('%s is not found', async (path) => {
    const { ask: get } = await serving();
    expect(await get(path)).toMatchObject({ status: 404, body: '404 page not found\n' });
  });
});
