// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import {
  decodeScope,
  ENTRY_SIZE,
  encodeScope,
  foundIn,
  reasonFor,
  SCOPE_STATES,
} from '../../../../../src/engines/bpf/scope/state.ts';
import { readBtf } from '../../../../../src/sys/native.ts';
import { bpfObjectPath } from '../../../../../src/sys/package.ts';

test('entries are as the programs have them', () => {
  const { structs, enums } = readBtf(readFileSync(bpfObjectPath('sock.bpf.o')));
  const scope = structs.find(({ name }) => name === 'netns_scope');
  expect(scope?.sizeBytes).toBe(ENTRY_SIZE);
  const at = Object.fromEntries(
    scope?.fields.map((field) => [field.name, field.offsetBytes]) ?? [],
  );
  expect(at).toMatchObject({ tgid: 0, found: 4, state: 6 });
  const states = enums.find(({ name }) => name === 'scope_state')?.values;
  expect(Object.values(states ?? {})).toEqual(SCOPE_STATES.map((_, index) => index));
  for (const state of SCOPE_STATES) {
    const entry = { tgid: 0x12345678, found: ['TPROXY', 'Kuma', 'host'], state } as const;
    expect(decodeScope(encodeScope(entry))).toEqual(entry);
  }
});

test('a state of a later version is served at the socket', () => {
  const bytes = encodeScope({ tgid: 1, found: [], state: 'packets' });
  bytes[6] = 9;
  expect(decodeScope(bytes).state).toBe('sockets');
});

test.each([
  ['ISTIO_REDIRECT', 'Istio'],
  ['PROXY_INIT_OUTPUT', 'Linkerd'],
  ['KUMA_MESH_OUTBOUND', 'Kuma'],
  ['CONSUL_PROXY_OUTPUT', 'Consul'],
])('a mesh is known by its chains: %s', (chain, mesh) => {
  const found = foundIn([{ kind: 'REDIRECT', chain }]);
  expect(found).toEqual(['REDIRECT', mesh]);
  expect(reasonFor(found)).toBe(`its rules redirect connections (REDIRECT), as those of ${mesh}`);
});

test.each([
  [['host'], '--socket-scope is host'],
  [
    ['TPROXY', 'no-way'],
    'its rules redirect connections (TPROXY), but no device with programs leads to it',
  ],
  [['unseen'], 'the agent does not see it'],
  [[], 'its rules redirect nothing'],
] as const)('reasons: %j', (found, reason) => {
  expect(reasonFor(found)).toBe(reason);
});
