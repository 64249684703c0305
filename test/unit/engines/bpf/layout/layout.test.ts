// SPDX-License-Identifier: Apache-2.0
// The codecs against the C structs: sizes, offsets and enum values from the object's own BTF, and
// bytes pinned by hand, so that neither side can move alone.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { REASONS } from '../../../../../src/engines/bpf/kernel/maps/counters.ts';
import * as layout from '../../../../../src/engines/bpf/layout/layout.ts';
import { readBtf } from '../../../../../src/sys/native.ts';
import { bpfObjectPath, packageRoot } from '../../../../../src/sys/package.ts';

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

  test('fields are at the offsets that the codecs use', () => {
    expect(offsets('frontend')).toMatchObject({
      rule: 0,
      service_id: 32,
      affinity_seconds: 36,
      flags: 40,
      family: 41,
      port: 42,
      protocol: 44,
      address: 48,
    });
    expect(offsets('traffic_rule')).toEqual({ block: 0, members: 4, kind: 6, flags: 7 });
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
    expect(offsets('source_range_key')).toEqual({ prefixlen: 0, service_id: 4, address: 8 });
    expect(offsets('source_range')).toEqual({ kind: 0, family: 1, pad: 2 });
    expect(offsets('backend_stat')).toEqual({ connections: 0, closed: 8 });
    expect(offsets('runtime_flags')).toEqual({
      skipped_cgroups: layout.SKIPPED_CGROUPS_OFFSET,
      node_ports: layout.NODE_PORTS_OFFSET,
      refused_sockets: layout.REFUSED_SOCKETS_OFFSET,
      direct_port: layout.DIRECT_PORT_OFFSET,
      direct_mtu: layout.DIRECT_MTU_OFFSET,
    });
    expect(offsets('backend_flows')).toEqual({ older: 0, newer: 4, ended: 8, met: 12 });
  });

  test('flags are the bits the codec sets, in the byte it sets', () => {
    const bits = (name: string) =>
      btf.structs
        .find((struct) => struct.name === name)
        ?.fields.map(({ name, bitOffset }) => [name, bitOffset]);
    expect(bits('frontend_flags')).toEqual([
      ['node_port', 0],
      ['endpoint_port', 1],
    ]);
    expect(bits('traffic_rule_flags')).toEqual([
      ['drop_if_empty', 0],
      ['masquerade', 1],
      ['keeps_local_client', 2],
      ['source_ranges', 3],
      ['direct_return', 5],
      ['ipip', 6],
      ['has_base', 7],
    ]);
  });

  test('enum values are the same', () => {
    const values = (name: string) => btf.enums.find((candidate) => candidate.name === name)?.values;
    const prefixed = (prefix: string, of: Readonly<Record<string, number>>) =>
      Object.fromEntries(Object.entries(of).map(([name, value]) => [`${prefix}_${name}`, value]));
    expect(values('backend_state')).toEqual(prefixed('BACKEND', layout.BACKEND_STATE));
    expect(values('l4_protocol')).toMatchObject(prefixed('PROTOCOL', layout.PROTOCOL_NUMBER));
    expect(values('set_kind')).toEqual(
      Object.fromEntries(
        Object.entries(layout.SET_KIND).map(([kind, value]) => [
          `SET_${kind.toUpperCase().replaceAll('-', '_')}`,
          value,
        ]),
      ),
    );
    expect(values('address_scope')).toEqual({
      SCOPE_NODE: layout.ADDRESS_SCOPE.node,
      SCOPE_LOOPBACK: layout.ADDRESS_SCOPE.loopback,
    });
    expect(values('range_kind')).toEqual({
      RANGE_NONE: 0,
      RANGE_ALLOWED: layout.RANGE_KIND.allowed,
      RANGE_POD: layout.RANGE_KIND.pod,
      RANGE_DENIED: layout.RANGE_KIND.denied,
    });
  });
});

/** [name, value] of an enum of a header: what no map refers to is in no BTF. */
function enumerators(
  name: string,
  prefix: string,
  file = 'types.h',
): readonly (readonly [string, number])[] {
  const header = readFileSync(join(packageRoot(), 'bpf', 'common', file), 'utf8');
  const body = new RegExp(`enum ${name} \\{([^}]*)\\}`).exec(header)?.[1] ?? '';
  const found = body.matchAll(new RegExp(`^\\s*${prefix}_([A-Z_]+) =\\s*(\\d+)`, 'gm'));
  return [...found].map(([, enumerator = '', value]) => [enumerator, Number(value)]);
}

test('reasons are named in the order of enum reason', () => {
  expect(enumerators('reason', 'REASON', 'reason.h')).toEqual(
    REASONS.flatMap((name, index) => (name === undefined ? [] : [[name, index]])),
  );
});

test('rules stand in the order of enum client_position', () => {
  const positions = Object.entries(layout.POSITION);
  expect(enumerators('client_position', 'POSITION')).toEqual(
    positions.map(([name, index]) => [name.toUpperCase(), index]),
  );
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
    const rule = (block: number, more = {}) => ({
      ...{ block, members: block + 1, kind: 'random' as const },
      ...{ whenEmpty: 'reject' as const, masquerade: false },
      ...{ keepsLocalClient: false, hasSourceRanges: false },
      ...more,
    });
    const frontend = {
      key: { family: 'IPv4' as const, address: '10.96.0.10', port: 80, protocol: 'TCP' as const },
      rules: {
        unknown: rule(1),
        host: rule(2),
        pod: rule(3, { masquerade: true }),
        outside: rule(4, { whenEmpty: 'drop', keepsLocalClient: true, hasSourceRanges: true }),
      },
      serviceId: 7,
      affinitySeconds: 9,
    };
    const rules = '0100000002000000' + '0200000003000000' + '0300000004000002' + '040000000500000d';
    const rest = '07000000' + '09000000' + '0004500006000000';
    const bytes = layout.encodeFrontend(frontend);
    expect(hex(bytes)).toBe(`${rules}${rest}00000000000000000000ffff0a60000a`);
    expect(layout.decodeFrontend(bytes)).toEqual(frontend);
    const nodePort = {
      ...frontend,
      key: { ...frontend.key, family: 'IPv6' as const, address: undefined },
    };
    expect(layout.decodeFrontend(layout.encodeFrontend(nodePort))).toEqual(nodePort);
    const shared = { ...nodePort, isEndpointPort: true };
    expect(layout.decodeFrontend(layout.encodeFrontend(shared))).toEqual(shared);
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

  test('a source range: bits of service id and address, the address v4-mapped', () => {
    const v4 = { serviceId: 7, prefix: '198.51.100.0/24' };
    const v6 = { serviceId: 0, prefix: '2001:db8::/32' };
    expect(hex(layout.encodeRangeKey(v4))).toBe('980000000700000000000000000000000000ffffc6336400');
    expect(hex(layout.encodeRangeKey(v6))).toBe('400000000000000020010db8000000000000000000000000');
    expect(layout.decodeRangeKey(layout.encodeRangeKey(v4), 'IPv4')).toEqual(v4);
    expect(layout.decodeRangeKey(layout.encodeRangeKey(v6), 'IPv6')).toEqual(v6);
    expect(hex(layout.encodeRange('allowed', 'IPv4'))).toBe('01040000');
    expect(layout.rangeFamily(layout.encodeRange('pod', 'IPv6'))).toBe('IPv6');
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
