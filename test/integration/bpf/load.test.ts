// SPDX-License-Identifier: Apache-2.0
// Every program loads on this kernel within a limit on verified instructions, which leaves room for stricter
// verifiers and keeps the start short on slow machines.
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { ALL_FEATURES, featureRodata, NO_FEATURES } from '../../../src/engines/bpf/features.ts';
import { withCast } from '../../../src/engines/bpf/kernel/loader/cast.ts';
import { encodeU32 } from '../../../src/engines/bpf/layout/layout.ts';
import type { Features } from '../../../src/engines/bpf/layout/packet-layout.ts';
import { kernelStructs } from '../../../src/sys/btf/structs.ts';
import { type BpfObject, openObject } from '../../../src/sys/native.ts';
import { documented, OBJECTS } from '../kernels/counts.ts';
import { packetObject, socketObject, sweepObject, xdpObject } from './support/drive.ts';

/** Verified instructions: connect6 contains all of selection twice, for v4-mapped addresses. */
const LIMITS: Readonly<Record<string, number>> = {
  fl_connect4: 16_000,
  fl_connect6: 24_500,
  fl_sendmsg4: 14_000,
  fl_sendmsg6: 14_000,
  fl_recvmsg4: 1_000,
  fl_recvmsg6: 1_000,
  fl_getpeername4: 500,
  fl_getpeername6: 500,
  fl_sock_release: 1_000,
  fl_bind4: 2_500,
  fl_bind6: 3_500,
};
const MAPS = [
  ...['fl_affinity', 'fl_backend4', 'fl_backend6', 'fl_be_flows', 'fl_be_stat', 'fl_cgroup_skip'],
  'fl_fe_stat',
  ...['fl_frontend', 'fl_frontend4', 'fl_frontend6', 'fl_netns'],
  ...['fl_node', 'fl_node_addr4', 'fl_node_addr6'],
  ...[
    'fl_not_service',
    'fl_range',
    'fl_reason',
    'fl_runtime',
    'fl_sent_to',
    'fl_service',
    'fl_slot_block',
    'fl_sock',
    'fl_tcp_sock',
    'fl_turn',
    'fl_udp_flow',
    'fl_udp_sock',
  ],
];

function loaded(settings: Readonly<Record<string, Uint8Array>>): BpfObject {
  const object = openObject(readFileSync(socketObject), { name: 'sock' });
  for (const [name, value] of Object.entries(settings)) object.setRodata(name, value);
  object.load();
  return object;
}

test.each([
  ['as compiled', {}],
  [
    'with every setting',
    {
      node_netns_cookie: new Uint8Array(8).fill(1),
      can_set_retval: Uint8Array.of(1),
      protects_node_ports: Uint8Array.of(1),
      socket_scope: Uint8Array.of(2),
    },
  ],
])('every program loads %s, within its limit', (_, settings) => {
  const object = loaded(settings);
  try {
    const walked = object.programs.map(({ name }) => {
      const { verifiedInsns } = object.program(name).info;
      return [name, verifiedInsns] as const;
    });
    process.stdout.write(`verified instructions: ${walked.map((w) => w.join(' ')).join(', ')}\n`);
    expect(walked.map(([name]) => name).sort()).toEqual(Object.keys(LIMITS).sort());
    expect(walked.filter(([name, count]) => count > LIMITS[name]!)).toEqual([]);
    expect(object.maps.filter((name) => name.startsWith('fl_')).sort()).toEqual(MAPS);
  } finally {
    object.close();
  }
});

/** Steps are global functions, which the verifier checks once: the sum of all that a program calls. */
const packetLimits = (ingress: number, egress: number): Readonly<Record<string, number>> => ({
  fl_ingress: ingress,
  fl_egress: egress,
  fl_ingress_l3: ingress,
  fl_egress_l3: egress,
});
const IPV6 = { ipv6: true, directReturn: false };

const packetRodata = (features: Features): Readonly<Record<string, Uint8Array>> => ({
  ip_summed_at: encodeU32(kernelStructs().ipSummedAt),
  cast_function: encodeU32(kernelStructs().castFunction),
  ...featureRodata(features),
});

const limit = (limits: Readonly<Record<string, number>>, name: string): number => limits[name] ?? 0;

test.each([
  ['packet', packetObject, packetLimits(84_500, 62_500), packetRodata(ALL_FEATURES)],
  ['packet (IPv4 and IPv6)', packetObject, packetLimits(67_500, 62_500), packetRodata(IPV6)],
  ['packet (IPv4)', packetObject, packetLimits(39_000, 36_000), packetRodata(NO_FEATURES)],
  ['XDP', xdpObject, { fl_xdp: 62_000 }, featureRodata(ALL_FEATURES)],
  ['XDP (IPv4)', xdpObject, { fl_xdp: 33_000 }, featureRodata(NO_FEATURES)],
  ['sweep', sweepObject, { fl_sweep: 15_000 }, {}],
] as const)('every program of the %s object loads within its limit', (_, path, limits, rodata) => {
  const object = openObject(withCast(readFileSync(path), rodata), { name: 'object' });
  for (const [variable, value] of Object.entries(rodata)) object.setRodata(variable, value);
  object.load();
  try {
    const walked = object.programs.map(
      ({ name }) => [name, object.program(name).info.verifiedInsns] as const,
    );
    process.stdout.write(`verified instructions: ${walked.map((w) => w.join(' ')).join(', ')}\n`);
    expect(walked.map(([name]) => name).sort()).toEqual(Object.keys(limits).sort());
    expect(walked.filter(([name, count]) => count > limit(limits, name))).toEqual([]);
  } finally {
    object.close();
  }
});

test.each([
  ['socket', socketObject],
  ['packet', packetObject],
  ['sweep', sweepObject],
])('names of the %s layer fit the kernel: 15 characters at most', (_, path) => {
  const object = openObject(readFileSync(path), { name: 'object' });
  const names = [
    ...object.maps.filter((m) => m.startsWith('fl_')),
    ...object.programs.map((p) => p.name),
  ];
  object.close();
  expect(names.filter((name) => name.length > 15)).toEqual([]);
});

test('every object of the product is counted in kernels/instructions.md', () => {
  const sources = ['socket', 'packet'].flatMap((folder) =>
    readdirSync(fileURLToPath(new URL(`../../../bpf/${folder}`, import.meta.url)), {
      encoding: 'utf8',
      recursive: true,
    }).map((path) => basename(path)),
  );
  const objects = sources.filter((name) => name.endsWith('.bpf.c'));
  expect([...OBJECTS].map((name) => `${name}.bpf.c`).sort()).toEqual(objects.sort());
});

test('kernels/instructions.md has every program', () => {
  const names = OBJECTS.flatMap((name) => {
    const path = fileURLToPath(new URL(`../../../build/bpf/${name}.bpf.o`, import.meta.url));
    const object = openObject(readFileSync(path), { name });
    const programs = object.programs.map((program) => `${name}/${program.name}`);
    object.close();
    return programs;
  });
  for (const [kernel, column] of documented()) {
    expect([...column.keys()].sort(), kernel).toEqual([...names].sort());
  }
});
