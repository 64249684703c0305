// SPDX-License-Identifier: Apache-2.0
// The packets of Services that a filter of the node is asked about. Pure.
import { canonicalPrefix, prefixContains } from '../../lib/ip.ts';
import { type Fit, opposite } from './chains.ts';

export interface Question {
  readonly source: (prefix: string) => Fit;
  readonly destination: (prefix: string) => Fit;
  /** Host order, inclusive. */
  readonly destinationPorts: (first: number, last: number) => Fit;
  /** A name, or the beginning of names, with `+` or `*` behind it. */
  readonly inInterface: (name: string) => Fit;
  readonly isDestinationLocal: Fit;
  readonly state: 'NEW' | 'ESTABLISHED';
  /** Most packets decide: those of a single address do not count. */
  readonly isAboutMost?: true;
}

/** What is known of the node; all that is not known may match. */
export interface NodeFacts {
  /** Ranges of the pods; empty: not known. */
  readonly podRanges: readonly string[];
  /** Addresses and ports of the frontends that clients outside reach. */
  readonly frontends: readonly { readonly address: string; readonly port: number }[];
}

const hostLength = (prefix: string): boolean => /\/(?:32|128)$/.test(prefix);
/** Without known ranges: a range this large is taken for that of the pods, as the rules of CNIs have it. */
const MOST_SPECIFIC = { IPv4: 24, IPv6: 64 } as const;

function podsIn(prefix: string, ranges: readonly string[]): Fit {
  const canonical = canonicalPrefix(prefix);
  if (canonical === undefined) return 'some';
  if (canonical.endsWith('/0')) return 'all';
  const isIpv6 = canonical.includes(':');
  const own = ranges.filter((range) => range.includes(':') === isIpv6);
  const length = Number(canonical.split('/')[1]);
  if (own.length === 0) return length <= MOST_SPECIFIC[isIpv6 ? 'IPv6' : 'IPv4'] ? 'all' : 'some';
  const isWhole = own.every((range) => {
    const [address = '', ownLength = ''] = range.split('/');
    return Number(ownLength) >= length && prefixContains(canonical, address);
  });
  return isWhole ? 'all' : 'some';
}

/** An interface of the node itself, or of containers that are no pods. Uplinks have names like `br-ex` and `lom1`. */
const NEVER_OUTSIDE = /^(?:lo|docker0|br-[0-9a-f]{12}|(?:virbr|cni-podman)(?:\d+|[+*]))$/;

const fromOutside = (name: string): Fit => (NEVER_OUTSIDE.test(name) ? 'none' : 'some');

/** Requests that came in by an uplink, on their way to a pod: what the filters of FORWARD see by eBPF. */
export const requests = ({ podRanges }: NodeFacts): Question => ({
  source: (prefix) => (prefix.endsWith('/0') ? 'all' : 'some'),
  destination: (prefix) => podsIn(prefix, podRanges),
  destinationPorts: () => 'some',
  inInterface: fromOutside,
  isDestinationLocal: 'none',
  state: 'NEW',
  isAboutMost: true,
});

/** Answers of pods, on their way to an uplink. */
export const answers = ({ podRanges }: NodeFacts): Question => ({
  source: (prefix) => podsIn(prefix, podRanges),
  destination: (prefix) => (prefix.endsWith('/0') ? 'all' : 'some'),
  destinationPorts: () => 'some',
  inInterface: () => 'some',
  isDestinationLocal: 'none',
  state: 'ESTABLISHED',
  isAboutMost: true,
});

/** Of any NodePort, by anybody: what is asked without Services. */
const NODE_PORTS = { first: 30_000, last: 32_767 } as const;

export const anyNodePort: Question = {
  source: () => 'some',
  destination: () => 'some',
  destinationPorts: (first, last) =>
    first <= NODE_PORTS.last && last >= NODE_PORTS.first ? 'some' : 'none',
  inInterface: fromOutside,
  isDestinationLocal: 'some',
  state: 'NEW',
};

/** Requests as they come in: to frontends, before anything is translated. */
export const arrivals = ({ frontends }: NodeFacts): Question => ({
  source: () => 'some',
  destination: (prefix) => {
    const canonical = canonicalPrefix(prefix);
    if (canonical === undefined) return 'some';
    if (canonical.endsWith('/0')) return 'all';
    return frontends.some(
      ({ address }) => isSameFamily(canonical, address) && prefixContains(canonical, address),
    )
      ? 'some'
      : 'none';
  },
  destinationPorts: (first, last) => {
    const inside = frontends.filter(({ port }) => port >= first && port <= last).length;
    return inside === 0 ? 'none' : inside === frontends.length ? 'all' : 'some';
  },
  inInterface: fromOutside,
  isDestinationLocal: 'some',
  state: 'NEW',
});

const isSameFamily = (prefix: string, address: string): boolean =>
  prefix.includes(':') === address.includes(':');

/** Of a negated prefix. */
export const notIn = (fit: Fit, prefix: string, { isAboutMost }: Question): Fit =>
  isAboutMost === true && fit === 'some' && hostLength(prefix) ? 'all' : opposite(fit);
