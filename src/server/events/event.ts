// SPDX-License-Identifier: Apache-2.0
// Kubernetes Events (events.k8s.io/v1) as values: the reasons, and what the API server accepts
// (ValidateEventCreate in k8s.io/kubernetes/pkg/apis/core/validation/events.go). The reasons and actions
// of kube-proxy are its own (cmd/kube-proxy/app/server.go, service_health.go).

const KUBE_PROXY = 'kube-proxy';

interface EventKind {
  readonly type: 'Normal' | 'Warning';
  readonly action: string;
}

const normal = (action: string): EventKind => ({ type: 'Normal', action });
const warning = (action: string): EventKind => ({ type: 'Warning', action });

export const EVENTS = {
  Starting: normal('StartKubeProxy'),
  FailedToStartProxierHealthcheck: warning('StartKubeProxy'),
  FailedToStartMetricServer: warning('StartKubeProxy'),
  FailedToStartServiceHealthcheck: warning('Listen'),
  /** fairlead's own: they name the dataplane that programs the kernel. */
  ModeSelected: normal('SelectMode'),
  MapFull: warning('Program'),
  XDPRefused: warning('Attach'),
  NodeConflict: warning('Check'),
  InvalidService: warning('Validate'),
  ShadowDiffers: warning('Compare'),
  ConfigReloadNeeded: warning('Restart'),
} as const satisfies Readonly<Record<string, EventKind>>;

export type EventReason = keyof typeof EVENTS;

/** What an event is about. A Node has no namespace. */
export type EventTarget =
  | { readonly kind: 'Node'; readonly name: string }
  | {
      readonly kind: 'Service';
      readonly namespace: string;
      readonly name: string;
      readonly uid?: string;
    };

export interface EventFacts {
  readonly reason: EventReason;
  readonly target: EventTarget;
  /** One sentence for people; cut at 1,024 bytes. */
  readonly note: string;
  /** How often it happened, this time included. */
  readonly count: number;
}

export interface EventOrigin {
  readonly nodeName: string;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
  /** Makes names unique within one millisecond. */
  readonly serial: number;
}

/** As the API server wants it in a POST to the namespace of its metadata. */
export interface KubeEvent {
  readonly apiVersion: 'events.k8s.io/v1';
  readonly kind: 'Event';
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly eventTime: string;
  readonly reportingController: string;
  readonly reportingInstance: string;
  readonly type: EventKind['type'];
  readonly reason: string;
  readonly action: string;
  readonly note: string;
  readonly regarding: {
    readonly apiVersion: 'v1';
    readonly kind: string;
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
  };
  readonly series?: { readonly count: number; readonly lastObservedTime: string };
}

const MAX_NOTE_BYTES = 1024;
const MAX_INSTANCE_LENGTH = 128;
const MAX_NAME_LENGTH = 253;

export function buildEvent(facts: EventFacts, { nodeName, nowMs, serial }: EventOrigin): KubeEvent {
  const { reason, target, count } = facts;
  const time = microTime(nowMs);
  // Go names them by nanoseconds in hexadecimal.
  const suffix = (BigInt(Math.floor(nowMs)) * 1_000_000n + BigInt(serial % 1_000_000)).toString(16);
  const stem = target.name.slice(0, MAX_NAME_LENGTH - suffix.length - 1).replace(/[-.]+$/, '');
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: {
      name: `${stem}.${suffix}`,
      // Events about Nodes, which have no namespace, live in `default`.
      namespace: target.kind === 'Service' ? target.namespace : 'default',
    },
    eventTime: time,
    reportingController: KUBE_PROXY,
    reportingInstance: `${KUBE_PROXY}-${nodeName}`.slice(0, MAX_INSTANCE_LENGTH),
    type: EVENTS[reason].type,
    reason,
    action: EVENTS[reason].action,
    note: cutToBytes(facts.note, MAX_NOTE_BYTES),
    regarding: regardingOf(target),
    // The API server rejects a series of one.
    ...(count > 1 && { series: { count, lastObservedTime: time } }),
  };
}

function regardingOf(target: EventTarget): KubeEvent['regarding'] {
  // `kubectl describe node` looks for the node's name as uid; kubelet and kube-proxy both put it there.
  if (target.kind === 'Node') {
    return { apiVersion: 'v1', kind: 'Node', name: target.name, uid: target.name };
  }
  const { kind, namespace, name, uid } = target;
  return { apiVersion: 'v1', kind, name, namespace, ...(uid !== undefined && { uid }) };
}

/** `2026-01-02T03:04:05.678000Z`. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}

/** Does not split a character. */
function cutToBytes(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  let cut = Buffer.from(text)
    .subarray(0, bytes - Buffer.byteLength('…'))
    .toString();
  while (cut.endsWith('\uFFFD')) cut = cut.slice(0, -1);
  return `${cut}…`;
}
