// SPDX-License-Identifier: Apache-2.0
// The codecs against the C structs: sizes, offsets and enum values from the object's own BTF, and
// bytes pinned by hand, so that neither side can move alone.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { REASONS } from '../../../../src/dataplane/bpf/maps/counters.ts';
import * as layout from '../../../../src/dataplane/bpf/maps/layout.ts';
import { readBtf } from '../../../../src/sys/native.ts';
import { bpfObjectPath, packageRoot } from '../../../../src/sys/package.ts';

const object = bpfObjectPath('sock.bpf.o');
const isBuilt = existsSync(object);
const btf = isBuilt ? readBtf(readFileSync(object)) : { structs: [], enums: [] };
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

describe.skipIf(!isBuilt)('against the BTF of the object', () => {
  test.each(Object.entries(layout.SIZE))('struct %s has %i bytes', (name, size) => {
    const structs = btf.structs.filter((struct) => struct.name === name);
    expect(structs.map(({ sizeBytes }) => sizeBytes)).toEqual([size]);
  });

  const offsets = (name: string): Record<string, number> =>
    Object.fromEntries(
      btf.structs
        .find((struct) => struct.name === name)
        ?.fields.map((f) => [f.name, f.offsetBytes]) ?? [],
    );

  test('fields stand where the codecs put them', () => {
    expect(offsets('frontend')).toMatchObject({
      internal: 0,
      external: 8,
      service_id: 16,
      frontend_id: 20,
      affinity_seconds: 24,
      internal_empty: 28,
      external_empty: 29,
    });
    expect(offsets('set_ref')).toEqual({ block: 0, slots: 4, kind: 6, generation: 7 });
    expect(offsets('frontend4_key')).toEqual({ address: 0, port: 4, protocol: 6, pad: 7 });
    expect(offsets('frontend6_key')).toEqual({ address: 0, port: 16, protocol: 18, pad: 19 });
    expect(offsets('backend4')).toMatchObject({
      address: 0,
      port: 4,
      state: 6,
      service_id: 8,
      generation: 12,
    });
    expect(offsets('backend6')).toMatchObject({
      address: 0,
      port: 16,
      state: 18,
      service_id: 20,
      generation: 24,
    });
    expect(offsets('service_name')).toMatchObject({ name: 0, protocol: 196, family: 197 });
    expect(offsets('frontend_stat')).toEqual({
      connections: 0,
      refused: 8,
      dropped: 16,
      affinity_hits: 24,
    });
    expect(offsets('backend_stat')).toEqual({ connections: 0, closed: 8 });
    expect(offsets('runtime_flags')).toEqual({
      skipped_cgroups: layout.SKIPPED_CGROUPS_OFFSET,
      node_ports: layout.NODE_PORTS_OFFSET,
    });
  });

  test('flags are the bits the codec sets, in the byte it sets', () => {
    expect(offsets('frontend')['flags']).toBe(30);
    const bits = btf.structs
      .find((struct) => struct.name === 'frontend_flags')
      ?.fields.map(({ name, bitOffset }) => [name, bitOffset]);
    expect(bits).toEqual([
      ['node_port', 0],
      ['pods_are_outside', 1],
      ['has_source_ranges', 2],
    ]);
  });

  test('enum values are the same', () => {
    const values = (name: string) => btf.enums.find((candidate) => candidate.name === name)?.values;
    const prefixed = (prefix: string, of: Readonly<Record<string, number>>) =>
      Object.fromEntries(Object.entries(of).map(([name, value]) => [`${prefix}_${name}`, value]));
    expect(values('backend_state')).toEqual(prefixed('BACKEND', layout.BACKEND_STATE));
    expect(values('l4_protocol')).toMatchObject(prefixed('PROTOCOL', layout.PROTOCOL_NUMBER));
    expect(values('empty_verdict')).toEqual({
      EMPTY_REFUSE: layout.EMPTY_VERDICT.reject,
      EMPTY_DROP: layout.EMPTY_VERDICT.drop,
    });
    expect(values('address_scope')).toEqual({
      SCOPE_NODE: layout.ADDRESS_SCOPE.node,
      SCOPE_LOOPBACK: layout.ADDRESS_SCOPE.loopback,
    });
  });
});

test('reasons are named in the order of enum reason', () => {
  const header = readFileSync(join(packageRoot(), 'bpf', 'common', 'types.h'), 'utf8');
  const body = /enum reason \{([^}]*)\}/.exec(header)?.[1] ?? '';
  const names = [...body.matchAll(/^\s*REASON_([A-Z_]+) = (\d+)/gm)].map(([, name, value]) => [
    name,
    Number(value),
  ]);
  expect(names).toEqual(REASONS.map((name, index) => [name, index]));
});

describe('bytes by hand', () => {
  test('a frontend key: address in network order, port in host order', () => {
    expect(
      hex(
        layout.encodeFrontendKey({
          family: 'IPv4',
          address: '10.96.0.10',
          port: 80,
          protocol: 'TCP',
        }),
      ),
    ).toBe('0a60000a50000600');
    expect(
      hex(
        layout.encodeFrontendKey({
          family: 'IPv6',
          address: 'fd00:96::10',
          port: 443,
          protocol: 'UDP',
        }),
      ),
    ).toBe('fd000096000000000000000000000010bb011100');
    expect(
      hex(
        layout.encodeFrontendKey({
          family: 'IPv4',
          address: undefined,
          port: 30080,
          protocol: 'TCP',
        }),
      ),
    ).toBe('0000000080750600');
  });

  test('a frontend, a backend, a name', () => {
    expect(
      hex(
        layout.encodeFrontend({
          internal: { block: 1, slots: 2, generation: 3 },
          external: { block: 4, slots: 5, generation: 6 },
          serviceId: 7,
          frontendId: 8,
          affinitySeconds: 9,
          internalEmpty: 'reject',
          externalEmpty: 'drop',
          isNodePort: true,
          arePodsOutside: false,
          hasSourceRanges: true,
        }),
      ),
    ).toBe('010000000200000304000000050000060700000008000000090000000001' + '0500');
    expect(
      hex(
        layout.encodeBackend(
          { address: '10.1.1.5', port: 8080, state: 1, isLocal: true, serviceId: 7, generation: 2 },
          'IPv4',
        ),
      ),
    ).toBe('0a010105901f01010700000002000000');
    const name = layout.encodeServiceName({
      name: 'default/web:http',
      protocol: 'TCP',
      family: 'IPv6',
    });
    expect(name.length).toBe(200);
    expect(layout.decodeServiceName(name)).toEqual({
      name: 'default/web:http',
      protocol: 'TCP',
      family: 'IPv6',
    });
  });

  test('what is encoded decodes to itself', () => {
    for (const family of ['IPv4', 'IPv6'] as const) {
      const key = {
        family,
        address: family === 'IPv4' ? '10.96.0.1' : 'fd00::1',
        port: 65535,
        protocol: 'SCTP' as const,
      };
      expect(layout.decodeFrontendKey(layout.encodeFrontendKey(key), family)).toEqual(key);
      const backend = {
        address: key.address,
        port: 1,
        state: 2,
        isLocal: false,
        serviceId: 2 ** 32 - 1,
        generation: 65535,
      };
      expect(layout.decodeBackend(layout.encodeBackend(backend, family), family)).toEqual(backend);
    }
  });
});
