// SPDX-License-Identifier: Apache-2.0
// A capture: what one node knew and had programmed at one time, as one JSON document. Commands answer from it anywhere.
// One document rather than an archive: names and addresses are replaced in one walk, and `zcat FILE | jq` reads it.
import type { Capabilities } from '../engines/capabilities.ts';
import type { Snapshot } from '../engines/snapshot.ts';
import { isRecord } from '../lib/json.ts';
import type { ObjectRef } from '../model/types.ts';
import type { Finding } from '../on-node/finding.ts';
import type { Plan, PlanSettings } from '../plan/types.ts';
import { revived } from './plain.ts';

/** Another one may be read by other versions only. */
export const FORMAT = 1;

export interface CapturedObject {
  readonly ref: ObjectRef;
  readonly object: unknown;
}

/** What a program has printed. */
export interface Printed {
  readonly command: string;
  readonly text: string;
}

export interface Unread {
  readonly what: string;
  readonly reason: string;
}

export interface Capture {
  readonly apiVersion: 'fairlead.io/v1';
  readonly kind: 'Capture';
  readonly format: typeof FORMAT;
  readonly takenAt: string;
  readonly version: string;
  readonly kernel: string;
  readonly node: string;
  readonly isRedacted: boolean;
  readonly settings: {
    readonly plan: PlanSettings;
    readonly engine: string;
    readonly flags: Readonly<Record<string, string>>;
  };
  /** Services, EndpointSlices, Nodes and ServiceCIDRs of the source: the fields that a proxy reads. */
  readonly objects?: readonly CapturedObject[];
  /** As JSON, by planOf; of the agent, or made from the objects where it did not answer. */
  readonly plan?: unknown;
  readonly planOf?: 'agent' | 'objects';
  /** In the order in which they are asked to serve a frontend. */
  readonly dataplanes?: readonly Capabilities[];
  /** Of the agent's reading, or of the maps where it did not answer. */
  readonly programmed?: Snapshot;
  /** Of the devices of the node that are up. */
  readonly addresses: readonly string[];
  readonly findings?: readonly Finding[];
  /** The agent's, as `status` prints it. */
  readonly status?: unknown;
  readonly rules: readonly Printed[];
  readonly network: readonly Printed[];
  readonly probe?: unknown;
  readonly metrics?: string;
  readonly log?: readonly string[];
  /** Those that the agent has sent. */
  readonly events?: readonly unknown[];
  readonly unread: readonly Unread[];
}

/** One row of the agent's answer, which is written in steps: a plan has a row for each Service. */
export type CapturedPart = readonly [
  part:
    | 'plan'
    | 'service'
    | 'dataplanes'
    | 'frontend'
    | 'backend'
    | 'addresses'
    | 'findings'
    | 'log'
    | 'events',
  value: unknown,
];

export type AgentParts = Pick<
  Capture,
  'plan' | 'dataplanes' | 'programmed' | 'findings' | 'log' | 'events'
> & { readonly addresses?: readonly string[] };

export function partsOf(rows: readonly CapturedPart[]): AgentParts {
  const all = (name: CapturedPart[0]): readonly unknown[] =>
    rows.filter(([part]) => part === name).map(([, value]) => value);
  const services = all('service') as readonly {
    readonly namespace: string;
    readonly name: string;
  }[];
  const [plan] = all('plan');
  const entries = services.map((one) => [`${one.namespace}/${one.name}`, one]);
  return {
    ...(isRecord(plan) && { plan: { ...plan, services: { $map: entries } } }),
    programmed: { frontends: all('frontend'), backends: all('backend') },
    dataplanes: all('dataplanes')[0],
    addresses: all('addresses')[0],
    findings: all('findings')[0],
    log: all('log')[0],
    events: all('events')[0],
  } as AgentParts;
}

export type ReadCapture =
  | { readonly ok: true; readonly value: Capture }
  | { readonly ok: false; readonly reason: string };

/** Looks no deeper than at the document's own members. */
export function captureIn(document: unknown): ReadCapture {
  if (!isRecord(document) || document['kind'] !== 'Capture')
    return { ok: false, reason: 'it is no file of `fairlead capture`' };
  const { format, version } = document;
  if (format !== FORMAT)
    return {
      ok: false,
      reason: `it has format ${format}, of fairlead ${version}: use that version`,
    };
  const lists = ['rules', 'network', 'addresses', 'unread'];
  const missing = lists.find((name) => !Array.isArray(document[name]));
  if (missing !== undefined || !isRecord(document['settings']))
    return { ok: false, reason: `it lacks ${missing ?? 'settings'}: it was changed or cut off` };
  return { ok: true, value: document as unknown as Capture };
}

/** undefined: none was captured. */
export const planIn = ({ plan }: Capture): Plan | undefined =>
  plan === undefined ? undefined : (revived(plan) as Plan);
