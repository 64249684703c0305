// SPDX-License-Identifier: Apache-2.0
// Reads stories: objects from fixture.yaml, changed by merge patches (RFC 7386), put and removed in steps, and the
// expected result for clients after each step.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import type { Kind, ObjectChange } from '../../src/model/types.ts';
import type { Flow } from '../../src/plan/conntrack/stale-flows.ts';
import type { Packet } from '../../src/plan/explain/packet.ts';
import { parsePacket } from '../../src/plan/explain/packet.ts';
import type { HealthCheck, PlanSettings } from '../../src/plan/types.ts';
import type { NamedObject } from '../support/plan/build-all.ts';

type Json = Record<string, unknown>;
type ObjectText = string | { readonly use: string; readonly patch: Json };

interface StepText {
  readonly put?: readonly ObjectText[];
  readonly remove?: readonly ObjectText[];
  readonly expect?: readonly string[];
  readonly rejects?: readonly string[];
  readonly health?: HealthCheck | null;
  readonly affinity?: Readonly<Record<string, number>>;
  readonly services?: number;
  readonly flows?: readonly string[];
  readonly stale?: readonly string[];
  readonly 'steps-say'?: readonly { from: string; to: string; rule: string; result: string }[];
}

interface StoryText extends StepText {
  readonly case: number | string;
  readonly title: string;
  readonly settings?: Partial<PlanSettings>;
  readonly steps?: readonly StepText[];
}

export interface Step extends Omit<StepText, 'put' | 'remove'> {
  readonly changes: readonly ObjectChange[];
}

export interface Story {
  readonly name: string;
  readonly case: number | string;
  readonly settings: PlanSettings;
  readonly steps: readonly Step[];
}

interface Fixture {
  readonly names: Readonly<Record<string, string>>;
  readonly settings: PlanSettings;
  readonly objects: Readonly<Record<string, Json>>;
}

const here = import.meta.dirname;
const read = (file: string): unknown => load(readFileSync(join(here, file), 'utf8'));
export const fixture = read('fixture.yaml') as Fixture;

const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function merge(into: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const merged: Json = { ...(isRecord(into) ? into : {}) };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = merge(merged[key], value);
  }
  return merged;
}

export function named(text: ObjectText): NamedObject {
  const name = typeof text === 'string' ? text : text.use;
  const base = fixture.objects[name];
  if (base === undefined) throw new Error(`no object ${name} in fixture.yaml`);
  const object = merge(base, typeof text === 'string' ? {} : text.patch) as Json;
  const metadata = object.metadata as { namespace?: string; name: string };
  const ref = {
    kind: object.kind as Kind,
    namespace: metadata.namespace ?? '',
    name: metadata.name,
  };
  return { ref, object };
}

const toStep = ({ put = [], remove = [], ...rest }: StepText): Step => ({
  ...rest,
  changes: [
    ...put.map((text): ObjectChange => ({ type: 'put', ...named(text) })),
    ...remove.map((text): ObjectChange => ({ type: 'remove', ref: named(text).ref })),
  ],
});

/** Every story starts with all four Nodes and the ServiceCIDR. */
export const CLUSTER: Step = toStep({ put: ['n1', 'n2', 'n3', 'n4', 'range'] });

export function readStories(file: string): readonly Story[] {
  return (read(file) as StoryText[]).map(({ case: number, title, settings, steps, ...only }) => ({
    name: `${number}: ${title}`,
    case: number,
    settings: { ...fixture.settings, ...settings },
    steps: [CLUSTER, ...(steps ?? [only]).map(toStep)],
  }));
}

const addressOf = (name: string): string => fixture.names[name] ?? name;
const bracketed = (address: string): string => (address.includes(':') ? `[${address}]` : address);

/** `svc:80/tcp` -> `10.96.0.10:80/tcp`, `A6:8080` -> `[2001:db8:1:1::5]:8080`. */
function withAddress(text: string): string {
  const cut = text.lastIndexOf(':');
  const name = text.slice(0, cut);
  return name.startsWith('[') ? text : `${bracketed(addressOf(name))}${text.slice(cut)}`;
}

export function packetOf(from: string, to: string): Packet {
  const [client = '', sourceInterface] = from.split('@');
  const parsed = parsePacket(addressOf(client), withAddress(to), sourceInterface);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.packet;
}

export interface Expectation {
  readonly packet: Packet;
  readonly verdict: string;
  readonly backends: readonly string[];
  readonly masquerade: boolean;
}

/** `X -> svc:80/tcp = A:8080 B:8080 snat` or `p1 -> svc:81/tcp = reject`. */
export function expectationOf(line: string): Expectation {
  const parts = /^(\S+) -> (\S+) = (.+)$/.exec(line);
  if (parts === null) throw new Error(`cannot read ${line}`);
  const [, from = '', to = '', outcome = ''] = parts;
  const words = outcome.split(' ');
  const isForward = words.length > 1 || words[0]?.includes(':') === true;
  return {
    packet: packetOf(from, to),
    verdict: isForward ? 'forward' : outcome,
    backends: isForward ? words.filter((word) => word !== 'snat').map(withAddress) : [],
    masquerade: words.includes('snat'),
  };
}

/** `udp svc:53 <- A:5353`: dialled the ClusterIP, answered by A. */
export function flowOf(line: string): Flow & { readonly line: string } {
  const [protocol = '', to = '', , from = ''] = line.split(' ');
  const split = (text: string): readonly [string, number] => {
    const cut = text.lastIndexOf(':');
    return [addressOf(text.slice(0, cut)), Number(text.slice(cut + 1))];
  };
  const [destination, destinationPort] = split(to);
  const [replySource, replySourcePort] = split(from);
  return {
    protocol: protocol.toUpperCase() as Flow['protocol'],
    destination,
    destinationPort,
    replySource,
    replySourcePort,
    line,
  };
}
