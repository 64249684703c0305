// SPDX-License-Identifier: Apache-2.0
// Clients that the sets of a table remember, and those that another engine has remembered.
import { expect, test } from 'vitest';
import { endpointNames } from '../../../../../src/engines/nftables/rules/names.ts';
import {
  affinityAdditions,
  affinitySets,
} from '../../../../../src/engines/nftables/state/affinity.ts';

const WEB = {
  ...{ namespace: 'default', name: 'web', portName: 'http' },
  protocol: 'TCP' as const,
};
const nameOf = (address: string, port = WEB): string =>
  endpointNames(port, { address, port: 8080 }).affinity;

const json = (...sets: readonly object[]): string =>
  JSON.stringify({
    nftables: [
      { metainfo: { version: '1.0.6' } },
      ...sets.map((set) => ({ set: { family: 'ip', table: 'fairlead', timeout: 600, ...set } })),
    ],
  });

const client = (val: string, expires: number): object => ({ elem: { val, expires } });
const port4 = { ...WEB, family: 'IPv4' } as const;
const remembered = (backend: string, address: string, ageSeconds: number) => ({
  ...{ port: port4, backend, client: address, ageSeconds },
});

const TWO = json(
  { name: nameOf('10.1.1.1'), elem: [client('192.0.2.1', 590), client('192.0.2.2', 10)] },
  { name: nameOf('10.1.1.2') },
);

test('a name has the port and the endpoint, the time to live the age', () => {
  expect(affinitySets(TWO, 'IPv4', 'fairlead')).toEqual({
    family: 'IPv4',
    ports: [{ port: port4, seconds: 600, backends: ['10.1.1.1:8080', '10.1.1.2:8080'] }],
    remembered: [
      remembered('10.1.1.1:8080', '192.0.2.1', 10),
      remembered('10.1.1.1:8080', '192.0.2.2', 590),
    ],
  });
});

test('of IPv6, whose names have dots for colons', () => {
  const set = { family: 'ip6', name: nameOf('fd00:1::a'), elem: [client('fd00::9', 600)] };
  expect(affinitySets(json(set), 'IPv6', 'fairlead').remembered).toEqual([
    {
      port: { ...WEB, family: 'IPv6' },
      backend: '[fd00:1::a]:8080',
      client: 'fd00::9',
      ageSeconds: 0,
    },
  ]);
});

test.each([
  ['of another table', { name: nameOf('10.1.1.1'), table: 'theirs' }],
  ['of another kind', { name: 'cluster-ips' }],
  [
    'with a digest that is not of its name',
    { name: 'affinity-AAAAAAAA-default/web/tcp/http__10.1.1.1/8080' },
  ],
  ['with a name that was cut', { name: nameOf('10.1.1.1', { ...WEB, name: 'w'.repeat(250) }) }],
])('a set %s is none', (_, set) => {
  expect(affinitySets(json(set), 'IPv4', 'fairlead').ports).toEqual([]);
});

const added = (...all: Parameters<typeof affinityAdditions>[2]): string =>
  affinityAdditions(affinitySets(TWO, 'IPv4', 'fairlead'), 'fairlead', all).script;

test('a client that is added lives as long as it would have', () => {
  expect(added(remembered('10.1.1.2:8080', '192.0.2.3', 100))).toBe(
    `add element ip fairlead ${nameOf('10.1.1.2')} { 192.0.2.3 timeout 600s expires 500s }\n`,
  );
});

test.each([
  ['the table has it already', remembered('10.1.1.2:8080', '192.0.2.1', 0)],
  ['its endpoint is gone', remembered('10.1.1.9:8080', '192.0.2.3', 0)],
  ['its time is over', remembered('10.1.1.2:8080', '192.0.2.3', 600)],
  [
    'its Service is gone',
    { ...remembered('10.1.1.2:8080', '192.0.2.3', 0), port: { ...port4, name: 'gone' } },
  ],
])('a client is not added: %s', (_, one) => {
  expect(added(one)).toBe('');
});

test('of two endpoints the one that it was seen at last', () => {
  const all = [
    remembered('10.1.1.2:8080', '192.0.2.3', 5),
    remembered('10.1.1.1:8080', '192.0.2.3', 50),
  ];
  expect(added(...all)).toContain(nameOf('10.1.1.2'));
  expect(added(...all)).not.toContain(nameOf('10.1.1.1'));
});
