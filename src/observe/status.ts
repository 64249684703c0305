// SPDX-License-Identifier: Apache-2.0
// What `fairlead status` shows: one object, assembled from the running agent's parts.
import { release } from 'node:os';
import type { AgentState } from '../agent/agent.ts';
import type { Source } from '../agent/source.ts';
import type { BpfDataplane } from '../dataplane/bpf/dataplane.ts';
import type { Attached } from '../dataplane/bpf/loader/attach.ts';
import { allPorts } from '../dataplane/bpf/sync/ledger.ts';
import type { Rejection } from '../model/types.ts';
import { refText } from '../plan/types.ts';
import type { ClusterStatus } from '../source/apiserver/cluster.ts';

export interface Status {
  readonly apiVersion: 'fairlead.io/v1';
  readonly kind: 'Status';
  readonly version: string;
  readonly pid: number;
  readonly node: string;
  readonly kernel: string;
  readonly startedAt: string;
  readonly isReady: boolean;
  readonly readyAt: string | undefined;
  readonly cgroupRoot: string;
  readonly bpfRoot: string;
  readonly hooks: readonly {
    readonly name: string;
    readonly isTakenOver: boolean;
    readonly insns: number;
  }[];
  readonly refusesWith: 'ECONNREFUSED' | 'EPERM';
  readonly source: {
    readonly kind: string;
    readonly location: string;
    readonly cluster?: ClusterStatus;
  };
  readonly sync: {
    readonly count: number;
    readonly lastAt: string | undefined;
    readonly lastDurationMs: number | undefined;
    readonly failed: AgentState['failed'];
    readonly driftTotal: number;
    readonly lastAuditAt: string | undefined;
  };
  readonly services: number;
  readonly tables: readonly {
    readonly name: string;
    readonly used: number;
    readonly capacity: number;
  }[];
  readonly reasons: Readonly<Record<string, number>>;
  /** Everything that was refused, with the place it stands in. */
  readonly problems: readonly Problem[];
}

export interface Problem {
  readonly object: string | undefined;
  readonly field: string | undefined;
  readonly file: string | undefined;
  readonly line: number | undefined;
  readonly reason: string;
  /** Of a cluster: the kinds of objects that cannot be followed, or `all`. */
  readonly kinds?: string | undefined;
  /** Nothing is rejected: worth mending, and no reason to fail. */
  readonly isWarning?: boolean;
}

export interface StatusParts {
  readonly version: string;
  readonly node: string;
  readonly startedAt: Date;
  readonly cgroupRoot: string;
  readonly bpfRoot: string;
  readonly attached: Attached;
  readonly dataplane: BpfDataplane;
  readonly source: Source;
  readonly state: AgentState;
  readonly reasons: Readonly<Record<string, number>>;
}

export function statusOf(parts: StatusParts): Status {
  const { state, attached, source } = parts;
  return {
    apiVersion: 'fairlead.io/v1',
    kind: 'Status',
    version: parts.version,
    pid: process.pid,
    node: parts.node,
    kernel: release(),
    startedAt: parts.startedAt.toISOString(),
    isReady: state.isReady,
    readyAt: state.readyAt?.toISOString(),
    cgroupRoot: parts.cgroupRoot,
    bpfRoot: parts.bpfRoot,
    hooks: attached.hooks.map((hook) => ({ ...hook, insns: attached.insns[hook.name] ?? 0 })),
    refusesWith: attached.canSetRetval ? 'ECONNREFUSED' : 'EPERM',
    source: {
      kind: source.kind,
      location: source.location,
      ...(source.cluster && { cluster: source.cluster() }),
    },
    sync: {
      count: state.syncs,
      lastAt: state.lastSync?.at.toISOString(),
      lastDurationMs: state.lastSync?.report.elapsedMs,
      failed: state.failed,
      driftTotal: state.driftTotal,
      lastAuditAt: state.lastAuditAt?.toISOString(),
    },
    services: state.plan?.services.size ?? 0,
    tables: tableFill(parts.dataplane),
    reasons: parts.reasons,
    problems: problemsOf(source, state.plan?.rejections ?? []),
  };
}

export function tableFill({ ledger }: BpfDataplane): Status['tables'] {
  const frontends = { IPv4: 0, IPv6: 0 };
  for (const port of allPorts(ledger)) frontends[port.family] += port.frontends.length;
  const { tables } = ledger;
  return [
    {
      name: tables.frontend.IPv4.name,
      used: frontends.IPv4,
      capacity: tables.frontend.IPv4.capacity,
    },
    {
      name: tables.frontend.IPv6.name,
      used: frontends.IPv6,
      capacity: tables.frontend.IPv6.capacity,
    },
    { name: 'backend ids', used: ledger.backendIds.used(), capacity: ledger.backendIds.capacity },
    { name: tables.slotBlock.name, used: ledger.blocks.used(), capacity: ledger.blocks.capacity },
    {
      name: tables.serviceName.name,
      used: ledger.serviceIds.used(),
      capacity: ledger.serviceIds.capacity,
    },
  ];
}

export function problemsOf(source: Source, rejections: readonly Rejection[]): readonly Problem[] {
  const fromFiles = source.problems().map(({ file, line, reason, object, kinds, isWarning }) => ({
    object: object === undefined ? undefined : refText(object),
    field: undefined,
    file,
    line,
    reason,
    ...(kinds === undefined ? {} : { kinds }),
    ...(isWarning === true ? { isWarning } : {}),
  }));
  const fromObjects = rejections.map(({ object, field, reason }) => {
    const at = source.locate(object, field);
    return { object: refText(object), field, file: at?.file, line: at?.line, reason };
  });
  return [...fromFiles, ...fromObjects];
}

/** `examples/web.yaml:12: Service default/web: spec.ports[0].port: must be …` */
export function problemText({ object, field, file, line, reason, kinds }: Problem): string {
  const place = file === undefined ? [] : [line === undefined ? file : `${file}:${line}`];
  const parts = [object, field].filter((part) => part !== undefined && part !== '');
  const scope = kinds === undefined ? '' : ` (kinds: ${kinds})`;
  return [...place, ...parts, reason + scope].join(': ');
}
