// SPDX-License-Identifier: Apache-2.0
// When the table is read, what is deleted, and what is retried and said, on a clock that the test controls.
import { beforeEach, expect, test } from 'vitest';
import { type Cleaned, createConntrackCleaner } from '../../../../src/agent/conntrack/cleaner.ts';
import type { Family, ObjectChange } from '../../../../src/model/types.ts';
import type { ConntrackEntry } from '../../../../src/sys/conntrack/entry.ts';
import { remove } from '../../../support/objects.ts';
import { createPlanner } from '../../../support/plan/planner.ts';
import { changesIn, ready, SETTINGS, service, slice } from '../../plan/support.ts';
import { FakeClock } from '../../source/apiserver/support/fake-clock.ts';

const UDP = [{ name: 'dns', port: 53, protocol: 'UDP', nodePort: 30053 }];
const dns = service('dns', 10, { ports: UDP });
const endpoints = (...addresses: readonly string[]): ObjectChange =>
  slice(
    'dns',
    addresses.map((address) => ready(address)),
    { ports: [{ name: 'dns', port: 5353, protocol: 'UDP' }] },
  );
const web = [service('web', 9), slice('web', [ready('10.1.1.9')])];

const entry = (replySource: string, destination = '10.96.0.10', port = 53): ConntrackEntry => ({
  ...{ protocol: 'UDP', destination, destinationPort: port },
  ...{ replySource, replySourcePort: 5353, identity: new Uint8Array() },
});

/** The kernel's table, and what it does next: `slow` is how long a pass takes. */
let kernel: { entries: ConntrackEntry[]; next: (Error | 'part')[]; slowMs: number };
let reads: Family[];
let cleaned: Cleaned[];
let lines: { level: string; message: string; fields: Record<string, unknown> }[];
let clock: FakeClock;
let planner: ReturnType<typeof createPlanner>;
let cleaner: ReturnType<typeof createConntrackCleaner>;

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
};
const advance = async (byMs: number): Promise<void> => {
  clock.advance(byMs);
  await turns();
};
const logTo =
  (level: string) =>
  (fields: object | string, message?: string): void => {
    const isText = typeof fields === 'string';
    lines.push({
      level,
      message: isText ? fields : (message ?? ''),
      fields: isText ? {} : { ...fields },
    });
  };

/** One sync of these changes. */
async function sync(...changes: readonly ObjectChange[]): Promise<void> {
  await syncAs({ isFull: false }, changes);
}

async function syncAs(
  { isFull }: { readonly isFull: boolean },
  changes: readonly ObjectChange[],
): Promise<void> {
  const delta = planner.apply(changes);
  const entries = delta.changed.map((key, index) => [key, changesIn(delta)[index]!] as const);
  cleaner.synced({ changes: new Map(entries), isFull, plan: delta.plan });
  await advance(0);
}

const left = (): string[] => kernel.entries.map(({ replySource }) => replySource);

beforeEach(() => {
  kernel = { entries: [], next: [], slowMs: 0 };
  [reads, cleaned, lines] = [[], [], []];
  clock = new FakeClock();
  planner = createPlanner(SETTINGS);
  cleaner = createConntrackCleaner({
    read: async ({ family, wants }, onEntries) => {
      reads.push(family);
      const next = kernel.next.shift();
      if (next instanceof Error) throw next;
      const entries = kernel.entries.length;
      // After the turn that has begun the pass.
      await Promise.resolve();
      clock.advance(kernel.slowMs);
      await onEntries(kernel.entries.filter((one) => wants(one.protocol, one.destinationPort)));
      return { entries, isWhole: next !== 'part' };
    },
    remove: async (stale) => {
      kernel.entries = kernel.entries.filter((one) => !stale.includes(one));
      return stale.length;
    },
    localAddresses: () => ['192.0.2.11'],
    clock,
    log: { info: logTo('info'), warn: logTo('warn'), debug: logTo('debug') } as never,
    onCleaned: (one) => cleaned.push(one),
  });
});

test('the first sync looks at every UDP frontend', async () => {
  kernel.entries = [entry('10.1.1.5'), entry('10.1.1.4'), entry('10.1.1.4', '192.0.2.11', 30053)];
  await sync(...web, dns, endpoints('10.1.1.5'));
  expect(left()).toEqual(['10.1.1.5']);
  expect(reads).toEqual(['IPv4']);
  expect(cleaned).toEqual([{ family: 'IPv4', durationMs: 0, deleted: 2 }]);
  expect(lines).toEqual([
    {
      level: 'info',
      message: 'stale conntrack entries deleted',
      fields: { family: 'IPv4', deleted: 2, entries: 3, durationMs: 0 },
    },
  ]);
});

test('a sync without a change of UDP or SCTP endpoints reads nothing', async () => {
  await sync(dns, endpoints('10.1.1.5'));
  await advance(60_000);
  await sync(...web);
  await sync(service('dns', 10, { ports: UDP, externalTrafficPolicy: 'Local' }));
  await advance(60_000);
  expect(reads).toHaveLength(1);
});

test('a replaced endpoint and a deleted Service free their flows', async () => {
  await sync(dns, endpoints('10.1.1.5'));
  await advance(60_000);
  kernel.entries = [entry('10.1.1.5')];
  await sync(endpoints('10.1.1.6'));
  expect(left()).toEqual([]);
  kernel.entries = [entry('10.1.1.6'), entry('10.96.0.10')];
  await advance(60_000);
  await sync(remove(dns));
  expect(left()).toEqual(['10.96.0.10']);
});

test('changes during a pass and its pause are looked at together, after it', async () => {
  kernel.slowMs = 500;
  await sync(dns, endpoints('10.1.1.5'));
  kernel.slowMs = 0;
  kernel.entries = [entry('10.1.1.5'), entry('10.1.1.6'), entry('10.1.1.7')];
  await sync(endpoints('10.1.1.6'));
  await sync(endpoints('10.1.1.7'));
  // Ten times as long as the pass.
  await advance(4_999);
  expect(reads).toHaveLength(1);
  await advance(1);
  expect(reads).toHaveLength(2);
  expect(left()).toEqual(['10.1.1.7']);
});

test('an endpoint that goes and comes back before the next pass keeps its flows', async () => {
  await sync(dns, endpoints('10.1.1.5'));
  kernel.entries = [entry('10.1.1.5'), entry('10.1.1.6')];
  await sync(endpoints('10.1.1.6'));
  await sync(endpoints('10.1.1.5'));
  await advance(1_000);
  expect(left()).toEqual(['10.1.1.5']);
});

test('a pause ends within 20 s, however long the pass took', async () => {
  kernel.slowMs = 9_000;
  await sync(dns, endpoints('10.1.1.5'));
  await sync(endpoints('10.1.1.6'));
  await advance(19_999);
  expect(reads).toHaveLength(1);
  await advance(1);
  expect(reads).toHaveLength(2);
});

test.each([
  ['EPERM', /CAP_NET_ADMIN/],
  ['EPROTONOSUPPORT', /modprobe nf_conntrack_netlink/],
  ['EINVAL', /modprobe nf_conntrack_netlink/],
])('%s is said once with what to do, and retried until it succeeds', async (code, advice) => {
  const refused = (): Error => Object.assign(new Error(`sendto: ${code}`), { code });
  kernel.next = [refused(), refused(), refused()];
  kernel.entries = [entry('10.1.1.4')];
  await sync(dns, endpoints('10.1.1.5'));
  for (let second = 0; second < 60; second++) await advance(1_000);
  expect(reads).toHaveLength(4);
  expect(left()).toEqual([]);
  const [warning, ...others] = lines.filter(({ level }) => level === 'warn');
  expect(warning?.message).toBe('stale conntrack entries cannot be deleted, will retry');
  expect(warning?.fields['reason']).toMatch(advice);
  expect(others).toEqual([]);
  expect(lines.at(-1)?.message).toBe('stale conntrack entries are deleted again');
});

test('what was read of an interrupted dump is used, and the rest is read again', async () => {
  kernel.next = ['part'];
  kernel.entries = [entry('10.1.1.4')];
  await sync(dns, endpoints('10.1.1.5'));
  expect(left()).toEqual([]);
  expect(lines.map(({ message }) => message)).toEqual([
    'conntrack table read in part, will read it again',
  ]);
  kernel.entries = [entry('10.1.1.3')];
  await advance(2_000);
  expect(left()).toEqual([]);
});

test('a pass that is closed deletes and reports nothing any more', async () => {
  kernel.entries = [entry('10.1.1.4')];
  const pass = sync(dns, endpoints('10.1.1.5'));
  cleaner.close();
  await pass;
  expect(reads).toEqual(['IPv4']);
  expect(left()).toEqual(['10.1.1.4']);
  expect([...cleaned, ...lines]).toEqual([]);
});

test('nothing happens after close', async () => {
  await sync(dns, endpoints('10.1.1.5'));
  await sync(endpoints('10.1.1.6'));
  cleaner.close();
  await advance(60_000);
  expect(reads).toHaveLength(1);
  expect(clock.delaysMs()).toEqual([]);
});

test('what a later change makes stale adds to what could not be deleted yet', async () => {
  await sync(dns, endpoints('10.1.1.1'));
  await advance(60_000);
  kernel.next.push(new Error('EBUSY'));
  await sync(endpoints('10.1.1.2'));
  kernel.entries = [entry('10.1.1.1'), entry('10.1.1.2')];
  // The Service goes before the retry: both of its endpoints of the last minute are gone with it.
  await sync(remove(dns));
  await advance(120_000);
  expect(kernel.entries).toEqual([]);
});

test('a Service that was deleted while no agent ran: what was translated for it goes', async () => {
  const udp = { family: 'IPv4', protocol: 'UDP' } as const;
  cleaner.adopt([
    { ...udp, address: '10.96.0.10', port: 53 },
    { ...udp, address: '10.96.0.77', port: 53 },
    { ...udp, address: undefined, port: 30077 },
    { family: 'IPv4', address: '10.96.0.77', port: undefined, protocol: undefined },
  ]);
  const stale = [entry('10.1.1.1', '10.96.0.77'), entry('10.1.1.1', '192.0.2.11', 30077)];
  const kept = [
    entry('10.1.1.1'),
    // Not translated, or of an address of another machine.
    { ...entry('10.96.0.77', '10.96.0.77'), replySourcePort: 53 },
    entry('10.1.1.1', '192.0.2.99', 30077),
  ];
  kernel.entries = [...stale, ...kept];
  await syncAs({ isFull: true }, [dns, endpoints('10.1.1.1')]);
  expect(kernel.entries).toEqual(kept);
});
