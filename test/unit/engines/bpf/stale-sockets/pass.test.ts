// SPDX-License-Identifier: Apache-2.0
// One pass: which sockets are destroyed, and what is reported of the others.
import { expect, test } from 'vitest';
import type { ConnectOutcome } from '../../../../../src/engines/bpf/stale-sockets/keeping.ts';
import {
  type Outcome,
  type PassParts,
  runPass,
} from '../../../../../src/engines/bpf/stale-sockets/pass.ts';
import {
  decodeStaleSockets,
  type StaleSocket,
} from '../../../../../src/engines/bpf/stale-sockets/socket.ts';
import { type RecordSpec, recordOf, V4, V6 } from './records.ts';

const socket = (spec: Partial<RecordSpec> = {}): StaleSocket =>
  decodeStaleSockets(recordOf({ ...V4, ...spec }))[0]!;

interface Given {
  readonly sockets: readonly StaleSocket[];
  readonly isWhole?: boolean;
  readonly failures?: readonly string[];
  readonly served?: bigint;
  readonly paths?: readonly number[];
  readonly outcome?: (socket: StaleSocket) => Outcome;
  /** There are programs on devices. */
  readonly canName?: boolean;
  /** By cookie; undefined: descriptors cannot be had. */
  readonly connect?: (cookie: bigint) => ConnectOutcome;
  readonly hasService?: boolean;
  readonly passesDevices?: boolean;
}

const OWN = 99;
const NONE_KEPT = { connected: 0, served: 0, waiting: 0 };

function partsOf(given: Given): PassParts & { readonly asked: string[] } {
  const { sockets, isWhole = true, failures = [], connect } = given;
  const { outcome = () => 'destroyed' as const } = given;
  const asked: string[] = [];
  return {
    asked,
    find: async () => ({ sockets, isWhole, failures }),
    isServed: ({ cookie }) => cookie === given.served,
    netnsPaths: async (inodes) => {
      asked.push(`paths ${[...inodes]}`);
      return new Map((given.paths ?? [...inodes]).map((inode) => [inode, `/ns/${inode}`]));
    },
    ownPath: `/ns/${OWN}`,
    destroyIn: async (path, group) => {
      asked.push(`${path}: ${group.map(({ cookie }) => cookie)}`);
      if (path === '/ns/13') throw new Error('setns: EPERM');
      return group.map(outcome);
    },
    keeping: {
      hasService: () => given.hasService ?? false,
      connectAgain: connect && (async (group) => group.map(({ cookie }) => connect(cookie))),
    },
    passesDevices: async () => () => given.passesDevices ?? false,
    ...(given.canName && {
      name: ({ served, refused }) => void asked.push(`serve ${served}; refuse ${refused}`),
    }),
  };
}

test('namespace by namespace, counted by protocol and family', async () => {
  const parts = partsOf({
    sockets: [
      socket({ cookie: 1n, netns: 5 }),
      socket({ cookie: 2n, netns: 6 }),
      socket({ cookie: 3n, netns: 5, protocol: 'TCP' }),
      socket({ ...V6, cookie: 4n, netns: 5 }),
      socket({ cookie: 5n, netns: 5 }),
    ],
  });
  expect(await runPass(parts)).toEqual({
    destroyed: [
      { protocol: 'UDP', family: 'IPv4', count: 3 },
      { protocol: 'TCP', family: 'IPv4', count: 1 },
      { protocol: 'UDP', family: 'IPv6', count: 1 },
    ],
    ...NONE_KEPT,
    refused: 0,
    left: [],
    hasMore: false,
    isSearched: true,
  });
  expect(parts.asked).toEqual(['paths 5,6', '/ns/5: 1,3,4,5', '/ns/6: 2']);
});

test('nothing stale: no namespace is looked for', async () => {
  const parts = partsOf({ sockets: [socket({ cookie: 9n })], served: 9n });
  expect(await runPass(parts)).toEqual({
    destroyed: [],
    ...NONE_KEPT,
    refused: 0,
    left: [],
    hasMore: false,
    isSearched: true,
  });
  expect(parts.asked).toEqual([]);
});

test('a namespace that is missing or refused affects no other; reasons are counted', async () => {
  const parts = partsOf({
    sockets: [12, 13, 13, 5, 12, 12].map((netns) => socket({ netns })),
    paths: [5, 13],
    failures: ['setns: EINVAL'],
  });
  const { destroyed, left, isSearched } = await runPass(parts);
  expect(destroyed).toEqual([{ protocol: 'UDP', family: 'IPv4', count: 1 }]);
  expect(isSearched).toBe(false);
  expect(left).toEqual([
    { reason: 'setns: EINVAL', count: 0 },
    { reason: expect.stringMatching(/^their network namespace is neither mounted/), count: 3 },
    { reason: 'setns: EPERM', count: 2 },
  ]);
});

test.each([
  ['cannot be entered', [], [13], false],
  ['cannot be searched', ['setns: EPERM'], [], false],
  ['is not found', [], [], true],
])('a namespace that %s', async (_, failures, paths, isExpected) => {
  const parts = partsOf({ sockets: [socket({ netns: 13 })], failures, paths });
  expect((await runPass(parts)).isSearched).toBe(isExpected);
});

test('sockets that are gone by themselves count as neither', async () => {
  const sockets = [1n, 2n, 3n].map((cookie) => socket({ cookie }));
  const outcome = ({ cookie }: StaleSocket): Outcome =>
    ({ 1: 'gone', 2: { error: 'EOPNOTSUPP' }, 3: 'destroyed' })[Number(cookie)] as Outcome;
  expect(await runPass(partsOf({ sockets, outcome }))).toMatchObject({
    destroyed: [{ count: 1 }],
    left: [{ reason: 'EOPNOTSUPP', count: 1 }],
  });
});

test.each([
  ['there may be more', false, 'destroyed', true],
  ['that was all', true, 'destroyed', false],
  ['no progress', false, 'gone', false],
] as const)('another pass at once? %s', async (_, isWhole, outcome, hasMore) => {
  const parts = partsOf({ sockets: [socket()], isWhole, outcome: () => outcome });
  expect((await runPass(parts)).hasMore).toBe(hasMore);
});

test('what cannot be destroyed is refused: UDP sockets of pods whose cookie is known', async () => {
  const parts = partsOf({
    sockets: [
      socket({ cookie: 1n, netns: 13 }),
      socket({ cookie: 2n, netns: 12 }),
      socket({ cookie: 3n, netns: 13, protocol: 'TCP' }),
      socket({ cookie: 0n, netns: 13 }),
      socket({ cookie: 4n, netns: OWN }),
      socket({ cookie: 5n, netns: 5 }),
    ],
    paths: [5, 13, OWN],
    outcome: ({ netns }) => (netns === OWN ? { error: 'EPERM' } : 'destroyed'),
    canName: true,
  });
  expect(await runPass(parts)).toEqual({
    destroyed: [{ protocol: 'UDP', family: 'IPv4', count: 1 }],
    ...NONE_KEPT,
    refused: 2,
    left: [
      { reason: 'setns: EPERM', count: 2 },
      { reason: 'EPERM', count: 1 },
    ],
    hasMore: false,
    isSearched: false,
  });
  expect(parts.asked.at(-1)).toBe('serve ; refuse 1,2');
});

test('sockets that are no longer stale are no longer refused', async () => {
  const parts = partsOf({ sockets: [], canName: true });
  expect((await runPass(parts)).refused).toBe(0);
  expect(parts.asked).toEqual(['serve ; refuse ']);
});

const KEPT = { hasService: true, canName: true, passesDevices: true } as const;

test('UDP sockets go on with another backend: connected again, as packets, or when there is one', async () => {
  const outcomes = ['connected', 'refused', 'refused', 'gone', 'gone'] as const;
  const parts = partsOf({
    ...KEPT,
    sockets: [
      socket({ cookie: 0n, netns: OWN }),
      socket({ cookie: 1n, netns: OWN }),
      socket({ cookie: 2n, netns: 5 }),
      socket({ cookie: 3n, netns: 5 }),
      socket({ cookie: 4n, netns: OWN }),
      socket({ cookie: 5n, netns: 5, protocol: 'TCP' }),
    ],
    connect: (cookie) => outcomes[Number(cookie)]!,
  });
  expect(await runPass(parts)).toMatchObject({ connected: 1, waiting: 1, served: 2 });
  expect(parts.asked.slice(1)).toEqual(['/ns/5: 5', '/ns/99: 4', 'serve 2,3; refuse ']);
});

test('all are connected again: no namespace is looked for, which takes longer', async () => {
  const sockets = [socket({ cookie: 1n, netns: 5 }), socket({ cookie: 2n, netns: 6 })];
  const parts = partsOf({ ...KEPT, sockets, connect: () => 'connected' });
  expect(await runPass(parts)).toMatchObject({ connected: 2 });
  expect(parts.asked).toEqual(['serve ; refuse ']);
});

test('destroyed, not served as packets: what failed to be connected again has lost its record', async () => {
  const parts = partsOf({
    ...KEPT,
    sockets: [socket({ cookie: 1n, netns: 5 }), socket({ cookie: 2n, netns: 5 })],
    connect: () => 'failed',
    outcome: ({ cookie, hasOtherRecord }) =>
      cookie === 1n && hasOtherRecord ? 'destroyed' : { error: 'setns: EPERM' },
  });
  expect(await runPass(parts)).toMatchObject({
    ...{ destroyed: [{ count: 1 }], served: 0, refused: 0 },
    left: [{ reason: 'setns: EPERM', count: 1 }],
  });
});

test('destroyed, or left, not served as packets: more than the packet programs have room for', async () => {
  const sockets = Array.from({ length: 8_194 }, (_, index) =>
    socket({ cookie: BigInt(index + 1), netns: 5 }),
  );
  const outcome = ({ cookie }: StaleSocket): Outcome =>
    cookie === 8_193n ? 'destroyed' : { error: 'setns: EPERM' };
  expect(await runPass(partsOf({ ...KEPT, sockets, outcome }))).toMatchObject({
    ...{ served: 8_192, destroyed: [{ count: 1 }], refused: 0 },
    left: [{ reason: 'setns: EPERM', count: 1 }],
  });
});

test.each([
  ['its Service is gone', { hasService: false }],
  ['its datagrams do not pass the node', { passesDevices: false }],
  ['no program sees them', { canName: false }],
])('destroyed, not served as packets: %s', async (_, lacking) => {
  const parts = partsOf({ ...KEPT, sockets: [socket({ cookie: 1n, netns: 5 })], ...lacking });
  expect(await runPass(parts)).toMatchObject({ destroyed: [{ count: 1 }], served: 0 });
});
