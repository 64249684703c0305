// SPDX-License-Identifier: Apache-2.0
// The codecs of connections against the C structs: the object's own BTF, and bytes by hand.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  CONN_SIZE,
  CONN_STATES,
  ConnRecord,
} from '../../../../../src/engines/bpf/layout/conn-layout.ts';
import { readBtf } from '../../../../../src/sys/native.ts';
import { packageRoot } from '../../../../../src/sys/package.ts';

const object = join(packageRoot(), 'build', 'bpf-test', 'conn_memory.bpf.o');
const isBuilt = existsSync(object);

describe.skipIf(!isBuilt)('against the BTF of the object', () => {
  const btf = isBuilt ? readBtf(readFileSync(object)) : { structs: [], enums: [] };
  const structOf = (name: string) => btf.structs.find((struct) => struct.name === name);
  const offsets = (name: string) =>
    Object.fromEntries(
      structOf(name)?.fields.map((field) => [field.name, field.offsetBytes]) ?? [],
    );

  test.each(Object.entries(CONN_SIZE))('struct %s has %i bytes', (name, size) => {
    expect(structOf(name)?.sizeBytes).toBe(size);
  });

  test('fields are at the offsets that the codecs use', () => {
    expect(offsets('conn_traffic')).toEqual({
      ...{ bytes: 0, packets: 8, reply_packets: 12, reply_bytes: 16 },
    });
    expect(offsets('conn_life')).toMatchObject({
      ...{ state: 0, flags: 1, generation: 2, syn: 4, protocol: 5, proof: 6 },
    });
    expect(structOf('conn_flags')?.fields.map(({ name }) => name)).toEqual([
      ...['masquerade', 'direct_return', 'ipip', 'in_geneve', 'of_stale', 'before'],
    ]);
    expect(offsets('conn')).toEqual({
      ...{ life: 0, backend_id: 8, frontend_id: 12, seen: 16, born: 20, answers_by: 24 },
      ...{ progress_client: 28, questions: 28, progress_backend: 32 },
      ...{ middle_port: 36, marks: 38, spare: 39 },
      ...{ client_port: 40, frontend_port: 42, backend_port: 44, reply_port: 46 },
    });
    expect(structOf('conn_marks')?.fields.map(({ name }) => name)).toEqual(['own', 'fresh']);
    expect(offsets('conn4')).toEqual({ conn: 0, client: 48, frontend: 52, backend: 56, reply: 60 });
    expect(offsets('conn6')).toMatchObject({ client: 48, frontend: 64, backend: 80, reply: 96 });
    expect(offsets('client_bucket')).toEqual({ word: 0, elsewhere: 28 });
    expect(offsets('reply_bucket')).toEqual({ word: 0, elsewhere: 28 });
  });

  test('states have the same values', () => {
    const states = CONN_STATES.map((state, value) => [
      `CONN_${state.toUpperCase().replaceAll('-', '_')}`,
      value,
    ]);
    expect(btf.enums.find(({ name }) => name === 'conn_state')?.values).toEqual({
      ...Object.fromEntries(states),
      CONN_STATES: CONN_STATES.length,
    });
  });
});

describe('bytes by hand', () => {
  const common = [
    ...['02', '01', '0700', '55', '06', '3412'],
    ...['0a000000', '0b000000', '64000000', '32000000', '03000000', '00000000', '00000000'],
    ...['00000000', '5cd6', '5000', '901f', '409c'],
  ].join('');
  const recordOf = (family: 'IPv4' | 'IPv6', hex: string) => {
    const record = new ConnRecord(family);
    new Uint8Array(record.words.buffer).set(Buffer.from(hex, 'hex'));
    return record;
  };

  test('a record of IPv4', () => {
    const record = recordOf('IPv4', `${common}c6336407cb00710a0a010105c000020b`);
    expect(record).toMatchObject({
      ...{ state: 'established', isMasqueraded: true, isOneSided: false, generation: 7 },
      ...{ protocol: 6, proof: 0x1234, backendId: 10, frontendId: 11, seenTick: 100, bornTick: 50 },
    });
    expect(record.side('client')).toEqual({
      address: Uint8Array.of(198, 51, 100, 7),
      port: 54_876,
    });
    expect(record.side('frontend')).toEqual({ address: Uint8Array.of(203, 0, 113, 10), port: 80 });
    expect(record.side('backend')).toEqual({ address: Uint8Array.of(10, 1, 1, 5), port: 8080 });
    expect(record.side('reply')).toEqual({ address: Uint8Array.of(192, 0, 2, 11), port: 40_000 });
  });

  test('a record of IPv6', () => {
    const addresses = [1, 2, 3, 4].map((last) => `20010db8${'00'.repeat(11)}0${last}`).join('');
    const record = recordOf('IPv6', `${common}${addresses}`);
    expect(record.side('client').address).toHaveLength(16);
    expect(record.side('reply').address.at(-1)).toBe(4);
  });

  test.each([
    [2, true],
    [4, true],
    [1, false],
    [8, false],
  ])('flags %i: one-sided is %s', (flags, isOneSided) => {
    const record = recordOf('IPv4', `020${flags}`);
    expect(record.isOneSided).toBe(isOneSided);
  });

  test('half-open is what the word says', () => {
    const record = new ConnRecord('IPv4');
    expect(record.isHalfOpen).toBe(false);
    record.word = 0x2000_0001;
    expect(record.isHalfOpen).toBe(true);
  });
});
