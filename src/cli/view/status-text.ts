// SPDX-License-Identifier: Apache-2.0
// The text output of `fairlead status`: health, source, then the programmed state.

import {
  type DeviceView,
  type EarlyView,
  earlyViews,
  type LeftSockets,
  type StaleSocketsState,
  type TableFill,
} from '../../engines/snapshot.ts';
import { isOfObject, problemText } from '../../model/problem.ts';
import type { FrontendCounts, Health } from '../../observe/health.ts';
import { shadowText } from '../../observe/shadow-view.ts';
import type { Status } from '../../observe/status.ts';
import { aligned } from './columns.ts';
import { directReturnLines } from './direct-return/lines.ts';
import { onNodeLines } from './on-node/section.ts';
import { STATE_TEXT } from './state.ts';

/** A frontend that some of its intended clients cannot use. */
export interface Limited {
  readonly service: string;
  readonly frontend: string;
  /** `not served by bpf: packets from outside`. */
  readonly reason: string;
}

/** Until the agent has a source, only `pid` and `isReady` of its Status are there. */
export interface Report extends Status {
  readonly health: Health;
  readonly frontends: FrontendCounts;
  readonly limits: readonly Limited[];
  /** Of the node, not of the agent. */
  readonly warnings?: readonly string[];
}

type Line = readonly [title: string, text: string];

/** `Dataplane:` and two spaces. */
const TITLE_WIDTH = 12;

export function statusText(report: Report, isWide: boolean): string {
  const lines = [
    ...healthLines(report),
    ...(report.source === undefined ? [] : sourceLines(report)),
    ...(report.isReady ? programLines(report) : []),
    ...problemLines(report),
    ...(report.warnings ?? []).map((text) => ['Warning', text] as const),
    ...limitLines(report, isWide),
    ...(report.isReady && isWide ? wideLines(report) : []),
  ];
  const titled = lines.map(([title, text]) => `${`${title}:`.padEnd(TITLE_WIDTH)}${text}`);
  return [...titled, ...onNodeLines(report.onThisNode ?? [])].join('\n');
}

function healthLines({ health, pid, version, node, kernel, startedAt }: Report): readonly Line[] {
  const { state, reasons } = health;
  const line = [
    'Health',
    reasons.length === 0 ? state : `${state}: ${reasons.join(', ')}`,
  ] as const;
  if (version === undefined) return [line, ['Agent', `pid ${pid}`]];
  return [
    line,
    ['Agent', `fairlead ${version}, pid ${pid}, started ${startedAt}`],
    ['Node', `${node}, Linux ${kernel}`],
  ];
}

function sourceLines({ source }: Report): readonly Line[] {
  const { kind, location, cluster } = source;
  if (cluster === undefined) return [['Source', `${kind} ${location}`]];
  const others = cluster.servers.length - 1;
  return [
    ['Source', `${kind} ${cluster.server}${others > 0 ? ` (${others} more to fail over to)` : ''}`],
    ['Chosen by', cluster.why],
    ...cluster.watches.map((watch) => ['Watch', watchText(watch)] as const),
  ];
}

type Watch = NonNullable<Status['source']['cluster']>['watches'][number];

/** `Service: 12 objects, last event 3 s ago`. */
function watchText({ kind, state, objects, aliveAgeMs }: Watch): string {
  if (state === 'absent') return `${kind}: not served by this API server`;
  if (aliveAgeMs === undefined) return `${kind}: no answer yet`;
  const age = `last answer ${Math.round(aliveAgeMs / 1000)} s ago`;
  const doing = state === 'watching' ? '' : ` (${state})`;
  return `${kind}: ${objects} ${objects === 1 ? 'object' : 'objects'}, ${age}${doing}`;
}

function programLines(report: Report): readonly Line[] {
  const {
    dataplanes,
    limitations = [],
    refusesWith,
    bpfRoot,
    iptables,
    nftables,
    fallback,
    sync,
    devices,
    packetFeatures,
  } = report;
  const parts = [dataplanes.join(' + '), ...hookTexts(report)];
  return [
    ['Dataplane', [parts.join(', '), `refused connections return ${refusesWith}`].join('; ')],
    ...dataplanes.flatMap((name) => limitationLines(name, limitations)),
    ...scopeLines(report),
    ...(devices.length === 0 ? [] : [['Devices', devicesText(devices)] as const]),
    ...(packetFeatures === undefined ? [] : [['Packets', packetFeatures.join(', ')] as const]),
    ...(iptables === undefined ? [] : [['Iptables', iptablesText(iptables)] as const]),
    ...(nftables === undefined ? [] : [['Nftables', nftables.families.join(' and ')] as const]),
    ...(fallback === undefined ? [] : [['Fallback', fallbackText(fallback)] as const]),
    ...(bpfRoot === undefined ? [] : [['Pins', bpfRoot] as const]),
    ...directReturnLines(report),
    ['Services', servicesText(report)],
    ...nodeProcessLines(report),
    ['Sync', syncText(sync)],
    ['Audit', auditText(sync)],
    // Chains have no capacity.
    ...(bpfRoot === undefined ? [] : [['Capacity', capacityText(report.tables)] as const]),
    ...staleSocketLines(report),
    ...shadowLines(report),
  ];
}

/** One line for each Service that differs. */
const shadowLines = ({ shadow }: Report): readonly Line[] =>
  shadow === undefined
    ? []
    : [
        ['Shadow', shadowText(shadow)],
        ...shadow.differing.map(({ service, what }): Line => ['Differs', `${service}: ${what}`]),
        ...shadow.unread.map((text): Line => ['Not read', text]),
      ];

/** Nothing where all sockets are served as asked. */
function scopeLines({ scope }: Report): readonly Line[] {
  if (scope === undefined || scope.asked === 'pods') return [];
  const { asked, used, why, known, asPackets, unseen } = scope;
  if (used === 'pods') return [['Sockets', `of all pods are served, not ${asked}: ${why}`]];
  if (used === 'host') return [['Sockets', 'of the node are served, and pods as packets']];
  const rest =
    unseen === 0
      ? ''
      : `; ${unseen} cannot be seen, of which sockets are served (hostPID, /run/netns)`;
  const text = `auto: ${asPackets} of ${known} network namespaces redirect connections and are served as packets${rest}`;
  return [['Sockets', text]];
}

/** One line each: `iptables: connections are not counted or listed`. */
const limitationLines = (name: string, limitations: Status['limitations']): readonly Line[] =>
  limitations
    .filter(({ dataplane }) => dataplane === name)
    .map(({ reason }) => ['Limit', `${name}: ${reason}`]);

/** `11 hooks on /sys/fs/cgroup`, `3 adopted from the previous agent`. */
function hookTexts({ hooks, cgroupRoot }: Report): readonly string[] {
  if (cgroupRoot === undefined) return [];
  const adopted = hooks.filter((hook) => hook.isAdopted).length;
  return [
    `${hooks.length} ${hooks.length === 1 ? 'hook' : 'hooks'} on ${cgroupRoot}`,
    ...(adopted === 0 ? [] : [`${adopted} adopted from the previous agent`]),
  ];
}

/** `packets by iptables: the kernel refused a program: …`. */
const fallbackText = ({ what, reason, by }: NonNullable<Status['fallback']>): string =>
  `${what} by ${by ?? 'iptables'}: ${reason}`;

/** `nft (9 rules in nft, 0 in legacy), IPv4 and IPv6`. */
const iptablesText = ({ variant, why, families }: NonNullable<Status['iptables']>): string =>
  `${variant} (${why}), ${families.join(' and ')}`;

function servicesText({ services, frontends }: Report): string {
  const states = Object.entries(frontends).flatMap(([state, count]) =>
    count === 0 ? [] : [`${count} ${STATE_TEXT[state as keyof FrontendCounts]}`],
  );
  const total = Object.values(frontends).reduce((sum, count) => sum + count, 0);
  const detail = states.length === 0 ? '' : ` (${states.join(', ')})`;
  return `${services}, with ${total} ${total === 1 ? 'frontend' : 'frontends'}${detail}`;
}

/** `10.96.0.10:53/UDP of kube-system/kube-dns: a process …`. */
function nodeProcessLines({ nodeProcesses = [] }: Report): readonly Line[] {
  if (nodeProcesses.length === 0) return [];
  const named = nodeProcesses
    .slice(0, NAMED_SERVICES)
    .map(({ service, frontend }) => `${frontend} of ${service}`);
  const rest = nodeProcesses.length - named.length;
  const all = `${named.join(', ')}${rest > 0 ? ` + ${rest} more...` : ''}`;
  return [['Listeners', `${all}: got by processes of this node, which listen there`]];
}

function syncText({ count, lastAt, lastDurationMs }: Status['sync']): string {
  const duration = lastDurationMs === undefined ? '' : `, took ${lastDurationMs.toFixed(1)} ms`;
  const times = `${count} ${count === 1 ? 'sync' : 'syncs'}`;
  return lastAt === undefined ? times : `${times}, last at ${lastAt}${duration}`;
}

const auditText = ({ lastAuditAt, driftTotal }: Status['sync']): string =>
  lastAuditAt === undefined
    ? 'never'
    : `last at ${lastAuditAt}, ${driftTotal} differences repaired since start`;

/** Nothing until the first pass, a moment after the start. */
function staleSocketLines({ staleSockets }: Report): readonly Line[] {
  if (staleSockets === undefined) return [];
  const { way, limits, destroyed, left } = staleSockets;
  if (way === undefined && limits.length === 0) return [];
  const count = destroyed.reduce((sum, each) => sum + each.count, 0);
  const what = way === undefined ? 'not destroyed' : `${count} destroyed, by ${way}`;
  const texts = [what, ...limits, ...goingOn(staleSockets)];
  return [
    ['Stale', `sockets whose endpoint is gone: ${texts.join('; ')}`],
    ...left.map((each): Line => ['Warning', leftText(each)]),
  ];
}

/** Those that are not destroyed. A former agent does not tell of all. */
function goingOn({ connected = 0, served = 0, waiting = 0, refused }: StaleSocketsState) {
  return [
    ...(connected > 0 ? [`${connected} connected to another endpoint`] : []),
    ...(served > 0 ? [`${served} of pods served as packets`] : []),
    ...(waiting > 0 ? [`${waiting} of the node wait for an endpoint`] : []),
    ...(refused > 0 ? [`${refused} of pods refused with their next datagram`] : []),
  ];
}

const leftText = ({ count, reason }: LeftSockets): string =>
  count === 0
    ? `stale sockets were not destroyed: ${reason}`
    : `${count} stale ${count === 1 ? 'socket was' : 'sockets were'} not destroyed: ${reason}`;

const problemLabel = (problem: Status['problems'][number]): string => {
  if (problem.isWarning === true) return 'Warning';
  if (problem.isDelayed === true) return 'Waits';
  return isOfObject(problem) ? 'Rejected' : 'Problem';
};

const problemLines = ({
  problems = [],
  sync,
  refused = [],
  devices = [],
  tables = [],
}: Report): readonly Line[] => [
  ...tables.flatMap(({ problem }): readonly Line[] =>
    problem === undefined ? [] : [['Warning', problem]],
  ),
  ...refused.map(({ layer, reason }) => ['Failed', `${layer}: ${reason}`] as const),
  ...devices.flatMap(({ isFailed, name, reason }) =>
    isFailed ? [['Failed', `device ${name}: ${reason}`] as const] : [],
  ),
  ...problems.map((problem) => [problemLabel(problem), problemText(problem)] as const),
  ...(sync?.failed ?? []).map(
    ({ text, reason, service }) =>
      ['Failed', `${service ?? ''} ${text}: ${reason}`.trim()] as const,
  ),
];

/** How many Services a line names. */
const NAMED_SERVICES = 3;

/** One line per reason; with `-o wide` one per frontend. */
function limitLines({ limits }: Report, isWide: boolean): readonly Line[] {
  if (isWide) {
    return limits.map(({ service, frontend, reason }) => [
      'Limit',
      `${service} ${frontend}: ${reason}`,
    ]);
  }
  const services = new Map<string, Set<string>>();
  for (const { reason, service } of limits) {
    services.set(reason, (services.get(reason) ?? new Set()).add(service));
  }
  return [...services].map(([reason, names]) => {
    const rest = names.size - NAMED_SERVICES;
    const named = [...names].slice(0, NAMED_SERVICES).join(', ');
    return ['Limit', `${reason}: ${named}${rest > 0 ? ` + ${rest} more...` : ''}`];
  });
}

function wideLines({ hooks, tables, reasons, devices }: Report): readonly Line[] {
  const usage = aligned(tables.map(fillRow));
  const verified = aligned(
    hooks.map(({ name, insns }) => [name, `${insns} instructions verified`]),
  );
  const calls = aligned(Object.entries(reasons).map(([name, count]) => [name, String(count)]));
  return [
    ...deviceLines(devices).map((text) => ['Device', text] as const),
    ...usage.map((text) => ['Map', text] as const),
    ...verified.map((text) => ['Hook', text] as const),
    ...calls.map((text) => ['Calls', text] as const),
  ];
}

/** `eth0   hardware   uplink   attached: it is up   SNAT 192.0.2.1   ingress: fl_ingress   egress: fl_egress`. */
const deviceLines = (devices: readonly DeviceView[]): readonly string[] =>
  aligned(
    devices.map((device) => [
      device.name,
      device.kind ?? (device.name === 'lo' ? 'loopback' : 'hardware'),
      device.isAttached ? device.role : '-',
      `${device.isAttached ? 'attached' : 'not attached'}: ${device.reason}`,
      snatText(device),
      orderText('ingress', device.ingress),
      orderText('egress', device.egress),
      ...earlyViews(device).map(earlyText),
    ]),
  );

/** `3 of 5 attached, 1 failed`. */
function devicesText(devices: readonly DeviceView[]): string {
  const attached = devices.filter(({ isAttached }) => isAttached).length;
  const failed = devices.filter(({ isFailed }) => isFailed).length;
  return `${attached} of ${devices.length} attached${failed === 0 ? '' : `, ${failed} failed`}`;
}

function snatText({ isAttached, snat }: DeviceView): string {
  if (!isAttached) return '';
  const addresses = Object.values(snat);
  return `SNAT ${addresses.length === 0 ? "with the node's address" : addresses.join(', ')}`;
}

/** `XDP refused: it has another XDP program (17), which stays`. */
function earlyText({ by, state, reason, lost }: EarlyView & { readonly by: string }): string {
  const losses = lost === 0 ? '' : `, ${lost} frames lost`;
  return `${by} ${state}: ${reason}${losses}`;
}

const orderText = (direction: string, programs: readonly string[]): string =>
  programs.length === 0 ? '' : `${direction}: ${programs.join(', ')}`;

/** What the entries of each map are: none of them are Services. */
const TABLE_TEXT: Readonly<Record<string, string>> = {
  fl_frontend4: 'IPv4 frontends, and an entry for the other ports of each ClusterIP',
  fl_frontend6: 'IPv6 frontends, and an entry for the other ports of each ClusterIP',
  'backend ids': 'backends of both families',
  fl_slot_block: 'slot blocks of backend sets',
  fl_service: 'Service ports of both families',
  fl_range: 'Ranges of source addresses',
  fl_conn4: 'IPv4 connections of packets',
  fl_conn6: 'IPv6 connections of packets',
  fl_client4: 'half-open ones; when full, the one seen longest ago is evicted',
  fl_client6: 'half-open ones; when full, the one seen longest ago is evicted',
};

const percent = ({ used, capacity }: TableFill): number =>
  capacity === 0 ? 0 : (100 * used) / capacity;

/** A map that evicts may be full at any time. */
function capacityText(tables: readonly TableFill[]): string {
  const [fullest] = tables
    .filter(({ evicts }) => evicts !== true)
    .toSorted((a, b) => percent(b) - percent(a));
  if (fullest === undefined) return 'unknown';
  const { name, used, capacity } = fullest;
  return `fullest map ${name}, ${used} of ${capacity} entries (${percent(fullest).toFixed(0)}%)`;
}

/** Columns of `status -o wide`. */
const fillRow = ({ name, used, capacity }: TableFill): readonly string[] => [
  name,
  `${used} of ${capacity}`,
  TABLE_TEXT[name] ?? '',
];
