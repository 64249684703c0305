// SPDX-License-Identifier: Apache-2.0
// What an agent with --shadow has found, as a line, as health, as metrics and as Events.
import { expect, test } from 'vitest';
import { SHADOW } from '../../../src/engines/capabilities.ts';
import { limitationsOf } from '../../../src/engines/limitations.ts';
import { healthOf } from '../../../src/observe/health.ts';
import {
  differingText,
  type ShadowView,
  shadowText,
  withShadow,
} from '../../../src/observe/shadow-view.ts';
import type { Status } from '../../../src/observe/status.ts';
import { createShadowEvents } from '../../../src/server/events/shadow.ts';
import { createMetrics } from '../../../src/server/metrics/metrics.ts';
import type { ServerReaders } from '../../../src/server/metrics/readings.ts';
import { agentReaders } from '../server/readers.ts';

const VIEW: ShadowView = {
  comparedAt: '2026-01-02T03:04:05.000Z',
  durationMs: 1500,
  rules: ['IPv4 nftables', 'IPv6 nftables'],
  services: 12,
  differences: { unexplained: 0 },
  ...{ differing: [], unread: [], isDue: false, isOpen: false },
};
const web = { service: 'default/web', what: '10.96.0.10:80/TCP verdict' };
const DIFFERS: ShadowView = {
  ...VIEW,
  differences: { unexplained: 3, 'martian-guard': 2 },
  differing: [web],
};

test('the line says how many Services would be served alike, and what else there is', () => {
  expect(shadowText(VIEW)).toBe(
    '12 Services would be served as by IPv4 nftables and IPv6 nftables; none differs',
  );
  expect(shadowText({ ...DIFFERS, unread: ['a rule'], isDue: true })).toBe(
    '11 Services would be served as by IPv4 nftables and IPv6 nftables; 1 differs; known differences: martian-guard 2; rules that could not be read: 1; to be compared again',
  );
  expect(shadowText({ ...VIEW, isOpen: true, isDue: true })).toMatch(
    /; whether some differ is not proven yet; to be compared again$/,
  );
  expect(shadowText({ ...VIEW, unread: ['a rule'] })).toMatch(
    /; none is known to differ; rules that could not be read: 1$/,
  );
  const { comparedAt: _, ...early } = VIEW;
  expect(shadowText(early)).toBe('not compared yet');
  expect(shadowText({ ...VIEW, problem: 'no rules' })).toBe('no rules');
  // What belongs to no Service makes none differ.
  expect(shadowText({ ...VIEW, differing: [{ service: 'no Service', what: 'x' }] })).toMatch(
    /^12 Services .*; 1 differs$/,
  );
});

test('a list of many is cut', () => {
  const many = ['a/a', 'a/b', 'a/c', 'a/d', 'a/e'].map((service) => ({ service, what: 'w' }));
  expect(differingText(many)).toBe('a/a: w; a/b: w; a/c: w + 2 more...');
});

test('it is degraded by a Service that differs, or a rule that was not read, not by frontends that nobody serves', () => {
  const status = { isReady: true, problems: [], refused: [], devices: [] };
  const sync = { failed: [] } as unknown as Status['sync'];
  const frontends = {
    ...{ ok: 0, missing: 0, stale: 0, 'node-process': 0, withheld: 0 },
    ...{ extra: 0, 'not-served': 7, unknown: 0 },
  };
  const reasons = (shadow: ShadowView) => healthOf({ ...status, sync, shadow }, frontends).reasons;
  expect(reasons(VIEW)).toEqual([]);
  expect(reasons(DIFFERS)).toEqual(['1 Service would be served in another way']);
  expect(reasons({ ...VIEW, unread: ['a'] })).toEqual(['1 rule of kube-proxy not read']);
  expect(reasons({ ...VIEW, problem: 'no rules' })).toEqual(['nothing can be compared']);
});

async function shown(view: ShadowView | undefined): Promise<readonly string[]> {
  const servers: ServerReaders = {
    isNodeEligible: () => true,
    pendingChanges: () => ({ services: 0, endpoints: 0 }),
    listening: () => ({}),
    serviceHealthPorts: () => 0,
    isReloadNeeded: () => false,
    events: () => ({ failed: 0, dropped: 0 }),
  };
  const readers = { ...agentReaders({ shadow: () => view }), ...servers };
  const fail = (metric: string, error: unknown): never => {
    throw new Error(metric, { cause: error });
  };
  const text = await createMetrics(readers, fail, { hasProcess: false, nowMs: () => 0 }).text();
  return text.split('\n').filter((line) => line.startsWith('fairlead_shadow_'));
}

test('metrics move with it', async () => {
  expect(await shown({ ...DIFFERS, unread: ['a', 'b'] })).toEqual([
    'fairlead_shadow_cannot_compare 0',
    'fairlead_shadow_differences{reason="unexplained"} 3',
    'fairlead_shadow_differences{reason="martian-guard"} 2',
    'fairlead_shadow_differing_services 1',
    'fairlead_shadow_compared_services 12',
    'fairlead_shadow_unread_rules 2',
    `fairlead_shadow_last_comparison_timestamp_seconds ${Date.parse(VIEW.comparedAt!) / 1000}`,
    'fairlead_shadow_last_comparison_duration_seconds 1.5',
  ]);
  expect(await shown({ ...VIEW, problem: 'no rules' })).toContain(
    'fairlead_shadow_cannot_compare 1',
  );
  expect(await shown(undefined)).toContain('fairlead_shadow_cannot_compare 0');
});

test('a Service that differs is one Event, and another one when something else differs', () => {
  const notes: string[] = [];
  const tell = createShadowEvents((reason, target, note) => {
    const of = target.kind === 'Service' ? `${target.namespace}/${target.name}` : target.kind;
    notes.push(`${reason} ${of} ${note}`);
  });
  const seen = (differing: ShadowView['differing']): readonly string[] => {
    tell({ ...VIEW, differing });
    return notes.splice(0);
  };
  expect(seen([web, { service: 'no Service', what: 'x' }])).toEqual([
    `ShadowDiffers default/web ${web.what}`,
  ]);
  expect(seen([web])).toEqual([]);
  expect(seen([{ ...web, what: 'y' }])).toEqual(['ShadowDiffers default/web y']);
  expect(seen([])).toEqual([]);
  expect(seen([web])).toHaveLength(1);
  const many = Array.from({ length: 50 }, (_, n) => ({ service: `a/s${n}`, what: 'w' }));
  expect(seen(many)).toHaveLength(20);
});

test('its one limitation is that it serves nothing', () => {
  expect(limitationsOf(SHADOW).map(({ code }) => code)).toEqual(['SHADOW']);
});

test('rows of Services say what of them is proven', () => {
  const rows = [
    { namespace: 'default', name: 'web' },
    { namespace: 'default', name: 'dns' },
  ];
  const shadowsOf = (view: ShadowView | undefined) =>
    withShadow(rows, view).map((row) => row.shadow);
  const proven: ShadowView = {
    ...{
      comparedAt: '2026-01-01T00:00:00Z',
      rules: ['IPv4 nftables'],
      services: 2,
      differences: {},
    },
    ...{ differing: [{ service: 'default/web', what: 'backends' }], unread: [] },
    ...{ isDue: false, isOpen: false },
  };
  expect(shadowsOf(proven)).toEqual(['backends', 'as kube-proxy']);
  const open = ['backends', 'not proven yet'];
  expect(shadowsOf({ ...proven, isOpen: true })).toEqual(open);
  expect(shadowsOf({ ...proven, isDue: true })).toEqual(open);
  expect(shadowsOf({ ...proven, unread: ['a rule'] })).toEqual(open);
  expect(shadowsOf({ ...proven, problem: 'no rules' })).toEqual(open);
  expect(shadowsOf(undefined)).toEqual([undefined, undefined]);
});
