// SPDX-License-Identifier: Apache-2.0
// Settings of the eBPF programs: sizes of maps, and which devices and sockets have programs.
import { z } from 'zod';
import { formatDuration, isInterval } from '../duration.ts';
import { duration } from '../file/schema.ts';
import { ALL_PACKETS, choice, NO_PROGRAMS, type Setting } from './row.ts';

export const LARGEST_TABLE = 16_777_216;
const entries = z.int().min(1).max(LARGEST_TABLE).nullish();

/** Names of devices have no blanks and no slashes; `!` excludes. */
const DEVICE_PATTERN = /^!?[^\s/!]{1,15}$/;
const DEVICE_REASON =
  'must be the name of a device, at most 15 characters without blanks and slashes, or a pattern';

/** As those of --devices; no quotes, which end a name where nft reads it. */
const OFFLOAD_PATTERN = /^!?[^\s/!"]{1,15}$/;
const OFFLOAD_REASON =
  'must be the name of a device, at most 15 characters without blanks, slashes and quotes, or a pattern';

/** For all devices, or for those that a pattern names. */
const XDP_ENTRY = /^(?:[^\s/!=]{1,15}=)?(?:auto|native|off)$/;
const XDP_REASON =
  'must be auto, native or off, for all devices or, as in eth0=off, for those with a name';

const PROGRAMS_OWN = "the program's";

export const PROGRAM_SETTINGS = {
  mapSizes: {
    flag: 'map-size',
    type: 'sizeMap',
    schema: z.strictObject({
      frontends: entries,
      backends: entries,
      servicePorts: entries,
      slotBlocks: entries,
      affinity: entries,
      sourceRanges: entries,
      flows: entries,
    }),
    help: 'maximum entries per table, e.g. frontends=65536,backends=131072 (also service-ports, slot-blocks, affinity, source-ranges, flows)',
    doc: 'maximum entries of tables',
    fields: {
      frontends: [PROGRAMS_OWN, 'addresses and ports that clients use, for each family'],
      backends: [PROGRAMS_OWN, 'backends, for each family'],
      servicePorts: [PROGRAMS_OWN, 'Service ports'],
      slotBlocks: [PROGRAMS_OWN, 'blocks of 16 slots that hold the backend sets'],
      affinity: [PROGRAMS_OWN, 'clients remembered for session affinity'],
      sourceRanges: [PROGRAMS_OWN, 'source ranges of Services, and of pods'],
      flows: [
        '1048576',
        'the most connections of packets, for each family. The table [grows](operate.md#when-the-table-is-full) from 65536; [what it costs](performance.md#start-and-memory)',
      ],
    },
    onIptables: { reason: 'ignored by the iptables engine: it has no maps' },
    written: ({ own }) => sizesByField(own.mapSizes),
  },
  devices: {
    flag: 'devices',
    type: 'list',
    /** `auto` and `none` have meanings of their own. */
    schema: z
      .array(z.string().regex(DEVICE_PATTERN, DEVICE_REASON))
      .refine((list) => list.length > 0, 'must not be empty: use auto, none, or names of devices')
      .refine(isDeviceList, "'none' must be alone: leave it out, or all others"),
    default: ['auto'],
    help: "network devices that get packet programs: names with * and ?, '!' before one excludes it, 'auto' chooses by kind, 'none' leaves packets alone, e.g. to kube-proxy (default auto)",
    doc: '[devices](#devices) with packet programs: names with `*` and `?`; `!` excludes; `auto` chooses by kind; `none` leaves packets alone',
    onIptables: { reason: ALL_PACKETS, except: ['auto'] },
    written: ({ own }) => own.devices,
  },
  hostFirewall: {
    flag: 'host-firewall',
    ...choice(['obey', 'ignore']),
    default: 'obey',
    help: 'if a packet filter conflicts with eBPF: obey (rules behind the filter serve packets, with --engine auto and --devices auto) or ignore (default obey)',
    doc: '`obey` or `ignore` [filters of the node](semantics.md#packet-filters-of-the-node) that conflict with eBPF',
    onIptables: {
      reason: 'ignored by the iptables engine: its rules are behind every filter',
      except: ['obey'],
    },
    written: ({ own }) => own.hostFirewall,
  },
  tcOrder: {
    flag: 'tc-order',
    ...choice(['outer', 'inner']),
    default: 'outer',
    help: 'order of the packet programs among other tc programs of a device: outer (the others see the addresses of backends) or inner (the others see packets as on the wire) (default outer)',
    doc: 'order among other tc programs of a device: `outer` (the others see the addresses of backends) or `inner` (they see packets as on the wire)',
    onIptables: { reason: NO_PROGRAMS, except: ['outer'] },
    written: ({ own }) => own.tcOrder,
  },
  socketScope: {
    flag: 'socket-scope',
    ...choice(['auto', 'host', 'pods']),
    default: 'auto',
    help: 'whose connections are translated at the socket: host (the node), pods (all pods, too) or auto (except redirecting pods) (default auto; bpf engine only)',
    doc: 'whose connections are translated at the socket: `auto`, `host` or `pods`; see [service meshes](semantics.md#service-meshes)',
    onIptables: { reason: ALL_PACKETS, except: ['auto'] },
    written: ({ own }) => own.socketScope,
  },
  xdp: {
    flag: 'xdp',
    type: 'list',
    /** A mode for all devices, and `NAME=mode`, of which the last one that fits counts. */
    schema: z
      .array(z.string().regex(XDP_ENTRY, XDP_REASON))
      .refine((list) => list.length > 0, 'must not be empty: use auto, native or off')
      .refine(hasOneMode, 'must have one mode for all devices; name the device of any other'),
    default: ['off'],
    help: "devices that forward packets of Services by XDP, before the network stack and past netfilter: auto (network cards that pass a test), native (virtual devices, too) or off, for all devices or one, as in 'auto,eth1=off' (default off; bpf engine only)",
    doc: 'devices that forward by [XDP](#xdp), past netfilter: `auto`, `native` or `off` for all, `NAME=mode` for some; the last entry that fits counts',
    onIptables: { reason: NO_PROGRAMS, except: ['off'] },
    written: ({ own }) => own.xdp,
  },
  nftablesOffload: {
    flag: 'nftables-offload',
    type: 'list',
    /** `auto` and `off` have meanings of their own. */
    schema: z
      .array(z.string().regex(OFFLOAD_PATTERN, OFFLOAD_REASON))
      .refine((list) => list.length > 0, 'must not be empty: use auto, off, or names of devices')
      .refine(isOffloadList, "'off' must be alone: leave it out, or all others"),
    default: ['off'],
    help: "network devices from which established TCP connections of Services go through an nftables flowtable: names with * and ?, '!' before one excludes it, 'auto' chooses those that route, 'off' has no flowtable (default off; nftables engine only)",
    doc: 'devices from which established TCP connections go through [a flowtable](#a-flowtable-for-established-connections): names with `*` and `?`; `!` excludes; `auto` chooses those that route; `off` has none',
    onIptables: { reason: 'ignored by the iptables engine: it has no flowtable', except: ['off'] },
    written: ({ own }) => own.nftablesOffload,
  },
  auditInterval: {
    flag: 'audit-interval',
    type: 'duration',
    schema: duration.refine(isInterval, 'must be from 100ms to 576h'),
    default: '10m',
    help: 'how often the kernel is read back and drift is repaired (default 10m)',
    doc: 'how often the kernel is read back and drift is repaired: from 100ms to 576h',
    written: ({ own }) => formatDuration(own.auditIntervalMs),
  },
} as const satisfies Readonly<Record<string, Setting>>;

const FIELDS = Object.keys(PROGRAM_SETTINGS.mapSizes.fields);

/** `servicePorts` -> `service-ports`: the name of a table in --map-size. */
export const tableName = (field: string): string =>
  field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** The names of tables, for --map-size. */
export const TABLES: readonly string[] = FIELDS.map(tableName);

function sizesByField(sizes: Readonly<Record<string, number>>): object | undefined {
  const given = FIELDS.flatMap((field) => {
    const size = sizes[tableName(field)];
    return size === undefined ? [] : [[field, size] as const];
  });
  return given.length > 0 ? Object.fromEntries(given) : undefined;
}

function isDeviceList(list: readonly string[]): boolean {
  return !list.includes('none') || list.length === 1;
}

function isOffloadList(list: readonly string[]): boolean {
  return !list.includes('off') || list.length === 1;
}

function hasOneMode(list: readonly string[]): boolean {
  return list.filter((entry) => !entry.includes('=')).length <= 1;
}
