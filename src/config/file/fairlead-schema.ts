// SPDX-License-Identifier: Apache-2.0
// FairleadConfiguration: a second document in kube-proxy's file, which kube-proxy never reads, so that
// rolling back is a change of image.
import { z } from 'zod';
import { ALGORITHM_NAMES } from '../../plan/decide/balancing.ts';
import { FORWARDING_NAMES } from '../../plan/decide/forwarding.ts';
import { SCOPE_NAMES } from '../../plan/exposure/sources.ts';
import { parseDuration } from '../duration.ts';
import { DEFAULT_BPF_ROOT, DEFAULT_CNI_FOLDER, DEFAULT_RUN_DIR } from '../instance-paths.ts';
import { duration } from './schema.ts';

export const OWN_API = 'fairlead.io/v1alpha1';
export const OWN_KIND = 'FairleadConfiguration';

export const LARGEST_TABLE = 16_777_216;
const entries = z.int().min(1).max(LARGEST_TABLE).nullish();
const text = z.string().min(1).nullish();
/** Node's timers fire at once and continuously if set to less than 1 ms or to more than 31 bits of milliseconds. */
const interval = duration.refine(isInterval, 'must be from 100ms to 576h');

/** Names of devices have no blanks and no slashes; `!` excludes. */
const DEVICE_PATTERN = /^!?[^\s/!]{1,15}$/;
const DEVICE_REASON =
  'must be the name of a device, at most 15 characters without blanks and slashes, or a pattern';

/** For all devices, or for those that a pattern names. */
const XDP_ENTRY = /^(?:[^\s/!=]{1,15}=)?(?:auto|native|off)$/;
const XDP_REASON =
  'must be auto, native or off, for all devices or, as in eth0=off, for those with a name';

export const ownSchema = z.strictObject({
  apiVersion: z.literal(OWN_API),
  kind: z.literal(OWN_KIND),
  /** auto = bpf where the kernel can, else iptables. */
  engine: z.enum(['auto', 'bpf', 'iptables']).nullish(),
  /** Remove everything from the kernel when the agent stops. */
  ephemeral: z.boolean().nullish(),
  /** Take over from an agent of this instance that runs. */
  takeOver: z.boolean().nullish(),
  /** Written when the agent is ready. */
  readyFile: text,
  /** Folder of manifests to read instead of watching an API server. */
  manifests: text,
  /** How long a change of the folder waits that would remove most Services; 0s = it does not. */
  manifestsRemovalDelay: duration
    .refine(
      (value) => isInterval(value) || parseDuration(value) === 0,
      'must be 0s, or from 100ms to 576h',
    )
    .nullish(),
  apiServers: z.array(z.url({ protocol: /^https?$/ })).nullish(),
  cgroupRoot: text,
  bpfRoot: text,
  runDir: text,
  /** Configurations of the CNI. */
  cniConfDir: text,
  mapSizes: z
    .strictObject({
      frontends: entries,
      backends: entries,
      servicePorts: entries,
      slotBlocks: entries,
      affinity: entries,
      sourceRanges: entries,
      flows: entries,
    })
    .nullish(),
  /** Patterns of device names; `auto` and `none` have meanings of their own. */
  devices: z
    .array(z.string().regex(DEVICE_PATTERN, DEVICE_REASON))
    .refine((list) => list.length > 0, 'must not be empty: use auto, none, or names of devices')
    .refine(isDeviceList, "'none' must be alone: leave it out, or all others")
    .nullish(),
  /** What becomes of packets that a filter of the node must see before they are translated. */
  hostFirewall: z.enum(['obey', 'ignore']).nullish(),
  tcOrder: z.enum(['outer', 'inner']).nullish(),
  /** Whose sockets are translated at the socket; packets of all others are. */
  socketScope: z.enum(['auto', 'host', 'pods']).nullish(),
  /** Which devices forward by XDP: a mode for all, and `NAME=mode`, of which the last one that fits counts. */
  xdp: z
    .array(z.string().regex(XDP_ENTRY, XDP_REASON))
    .refine((list) => list.length > 0, 'must not be empty: use auto, native or off')
    .refine(hasOneMode, 'must have one mode for all devices; name the device of any other')
    .nullish(),
  auditInterval: interval.nullish(),
  allowExternalIPs: z.boolean().nullish(),
  /** How a backend is chosen, of Services that do not say it. */
  algorithm: z.enum(ALGORITHM_NAMES).nullish(),
  /** Which way requests from outside go to other nodes, of Services that do not say it. */
  forwarding: z.enum(FORWARDING_NAMES).nullish(),
  /** What nodes prove to each other with direct return, read again when it changes. */
  directReturnSecretFile: text,
  /** The same for clients from outside, at frontends that are no ClusterIP. */
  externalAlgorithm: z.enum(ALGORITHM_NAMES).nullish(),
  /** Where loadBalancerSourceRanges hold, of Services that do not say it. */
  sourceRangesScope: z.enum(SCOPE_NAMES).nullish(),
  /** Reset TCP connections whose backend is gone; otherwise they are left to end by themselves. */
  resetTCPConnections: z.boolean().nullish(),
  /** Answer echo requests to addresses of Services. */
  answerPing: z.boolean().nullish(),
  /** Processes of the node cannot bind NodePorts. */
  nodePortBindProtection: z.boolean().nullish(),
  logLevel: z.enum(['debug', 'info', 'warn', 'error']).nullish(),
  logFormat: z.enum(['json', 'text']).nullish(),
  /** How many Services, the busiest first, get their own counters on /metrics. */
  metricsTopServices: z.int().min(0).max(1000).nullish(),
});

export type OwnInput = z.infer<typeof ownSchema>;

export interface OwnSettings {
  readonly isEphemeral: boolean;
  /** An agent of this instance that runs is replaced without a gap. */
  readonly takesOver: boolean;
  readonly readyFile: string | undefined;
  readonly directReturnSecretFile: string | undefined;
  /** undefined = the whole hierarchy. */
  readonly cgroupRoot: string | undefined;
  readonly bpfRoot: string;
  readonly runDir: string;
  readonly cniConfDir: string;
  /** Entries by the table names of --map-size (`service-ports`); a table that is absent keeps its size. */
  readonly mapSizes: Readonly<Record<string, number>>;
  /** Patterns of device names: ['auto'] chooses by kind, ['none'] none. */
  readonly devices: readonly string[];
  readonly hostFirewall: 'obey' | 'ignore';
  readonly tcOrder: 'outer' | 'inner';
  readonly socketScope: 'auto' | 'host' | 'pods';
  /** As in the file. */
  readonly xdp: readonly string[];
  readonly protectsNodePorts: boolean;
  readonly auditIntervalMs: number;
  /** TCP connections to a backend that is gone are reset. */
  readonly resetsTcp: boolean;
  /** Echo requests to addresses of Services are answered. */
  readonly answersPing: boolean;
  /** 0 = no counters per Service. */
  readonly metricsTopServices: number;
}

export function ownSettings(input: Partial<OwnInput>): OwnSettings {
  const sizes = input.mapSizes ?? {};
  const named = {
    frontends: sizes.frontends,
    backends: sizes.backends,
    'service-ports': sizes.servicePorts,
    'slot-blocks': sizes.slotBlocks,
    affinity: sizes.affinity,
    'source-ranges': sizes.sourceRanges,
    flows: sizes.flows,
  };
  return {
    isEphemeral: input.ephemeral ?? false,
    takesOver: input.takeOver ?? false,
    readyFile: input.readyFile ?? undefined,
    directReturnSecretFile: input.directReturnSecretFile ?? undefined,
    cgroupRoot: input.cgroupRoot ?? undefined,
    bpfRoot: input.bpfRoot ?? DEFAULT_BPF_ROOT,
    runDir: input.runDir ?? DEFAULT_RUN_DIR,
    cniConfDir: input.cniConfDir ?? DEFAULT_CNI_FOLDER,
    mapSizes: Object.fromEntries(
      Object.entries(named).flatMap(([name, size]) => (size == null ? [] : [[name, size]])),
    ),
    devices: input.devices ?? ['auto'],
    hostFirewall: input.hostFirewall ?? 'obey',
    tcOrder: input.tcOrder ?? 'outer',
    socketScope: input.socketScope ?? 'auto',
    xdp: input.xdp ?? ['off'],
    protectsNodePorts: input.nodePortBindProtection ?? true,
    auditIntervalMs: parseDuration(input.auditInterval ?? '10m') ?? 600_000,
    resetsTcp: input.resetTCPConnections ?? false,
    answersPing: input.answerPing ?? false,
    metricsTopServices: input.metricsTopServices ?? 0,
  };
}

function isDeviceList(list: readonly string[]): boolean {
  return !list.includes('none') || list.length === 1;
}

function hasOneMode(list: readonly string[]): boolean {
  return list.filter((entry) => !entry.includes('=')).length <= 1;
}

function isInterval(text: string): boolean {
  const ms = parseDuration(text) ?? 0;
  return ms >= 100 && ms <= 24 * 24 * 3_600_000;
}
