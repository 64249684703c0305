// SPDX-License-Identifier: Apache-2.0
// What an agent and its successor say to each other over the admin socket. Pure. Both may be of different versions: fields are
// added, never changed.
//
//   successor                                    running agent
//   GET TAKE_OVER_PATH?pid=…&netns=…, Upgrade ->
//                                             <- 101, or 409 with code and reason
//   (gets its first lists)
//   GET LISTENERS_PATH, Upgrade               ->
//                                                (stops to sync, lets go of its locks but that on --run-dir)
//                                             <- on that connection: the descriptor of that lock, LOCK_TEXT, then
//                                                descriptors of listeners and their addresses
//                                             <- {"released":COUNT}, or {"failed":REASON}
//   (opens the dataplane, initial sync, answers on the listeners)
//   {"serves":true}                           ->
//                                                (accepts no connection any more, waits for SIGTERM)
//
// A first connection that ends before `serves` means that the successor is gone: the agent resumes.
import { z } from 'zod';
import { isErrorCode } from '../../errors.ts';
import { recordOrEmpty } from '../../lib/json.ts';
import type { InstanceFacts, Refusal } from './facts.ts';

export const TAKE_OVER_PATH = '/v1/take-over';
export const LISTENERS_PATH = '/v1/take-over/listeners';
/** Of the Upgrade header. */
export const PROTOCOL = 'fairlead-take-over/1';

export interface Successor {
  readonly pid: number;
  readonly version: string;
  readonly facts: InstanceFacts;
  /** The one that it begins with; absent: of a version that does not say so. */
  readonly engine?: string;
}

export const queryOf = ({ pid, version, facts, engine }: Successor): string =>
  new URLSearchParams({
    pid: String(pid),
    version,
    ...definedOnly({ ...facts, engine }),
  }).toString();

const definedOnly = (facts: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(facts).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );

/** undefined: this is not what a successor says. */
export function successorOf(query: URLSearchParams): Successor | undefined {
  const pid = Number(query.get('pid'));
  const netns = query.get('netns');
  if (!Number.isSafeInteger(pid) || pid <= 0 || netns === null) return undefined;
  const optional = (name: 'bpfRoot' | 'cgroup' | 'engine'): string | undefined =>
    query.get(name) ?? undefined;
  const engine = optional('engine');
  const facts = { netns, bpfRoot: optional('bpfRoot'), cgroup: optional('cgroup') };
  const version = query.get('version') ?? 'unknown';
  return { pid, version, facts, ...(engine !== undefined && { engine }) };
}

/** Of the body of a response; undefined if it is none, as that of a version that cannot hand over. */
export function refusalOf(body: unknown): Refusal | undefined {
  const { code, reason } = recordOrEmpty(body);
  return typeof code === 'string' && isErrorCode(code) && typeof reason === 'string'
    ? { code, reason }
    : undefined;
}

export type ControlLine =
  | { readonly kind: 'released'; readonly count: number }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'serves' };

export function controlText(line: ControlLine): string {
  return `${JSON.stringify(fieldsOf(line))}\n`;
}

function fieldsOf(line: ControlLine): object {
  switch (line.kind) {
    case 'serves':
      return { serves: true };
    case 'released':
      return { released: line.count };
    case 'failed':
      return { failed: line.reason };
  }
}

/** undefined: this is no line of the protocol. */
export function controlLine(text: string): ControlLine | undefined {
  const { serves, released, failed } = recordOrEmpty(parsed(text));
  if (serves === true) return { kind: 'serves' };
  if (typeof failed === 'string') return { kind: 'failed', reason: failed };
  return typeof released === 'number' && Number.isSafeInteger(released) && released >= 0
    ? { kind: 'released', count: released }
    : undefined;
}

const addresses = z.array(
  z.object({
    host: z.string().min(1),
    port: z.int().min(1).max(65_535),
    isIpv6Only: z.boolean(),
  }),
);

export type Addresses = z.infer<typeof addresses>;

/** Of the first message, whose one descriptor is that of the lock on --run-dir. */
export const LOCK_TEXT = '"lock"\n';

/** One line for each message with descriptors of listeners, in their order. */
export const addressesText = (all: Readonly<Addresses>): string =>
  `${JSON.stringify(all.map(({ host, port, isIpv6Only }) => ({ host, port, isIpv6Only })))}\n`;

export function addressesOf(text: string): Addresses | undefined {
  const found = addresses.safeParse(parsed(text));
  return found.success ? found.data : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
