// SPDX-License-Identifier: Apache-2.0
// What becomes of a new connection of one class of clients to one destination.

import { hostPort } from '../lib/address-bytes.ts';

export interface Answer {
  /** `none`: no proxy touches the packet, and the node's routes lead it. */
  readonly verdict: 'forward' | 'reject' | 'drop' | 'none' | 'mixed';
  /** Sorted by their text. */
  readonly backends: readonly PossibleBackend[];
  /** Of session affinity; 0: there is none; undefined: the rules keep a client with another backend than it had. */
  readonly affinitySeconds: number | undefined;
  /** What decided: rules, or the Service. */
  readonly because: readonly Reason[];
}

/** A rule, or what the Service says. */
export interface Reason {
  readonly text: string;
  /** A rule of no proxy. */
  readonly isForeign: boolean;
}

export interface PossibleBackend {
  /** `10.1.1.5:8080`, `[fd00::5]:8080`; `drop` or another verdict, if not all packets are forwarded. */
  readonly text: string;
  /** 0..1; those of all backends add up to 1. */
  readonly share: number;
  readonly masquerade: boolean | 'mixed';
}

/** Shares are rounded to ten digits in rules of iptables, and to fractions of 2^31 in the kernel. */
const TOLERANCE = 1e-6;

/** The part in which two answers differ. `hairpin`: whether a backend that is its own client is masqueraded. */
export type Part = 'verdict' | 'backends' | 'shares' | 'masquerade' | 'hairpin' | 'affinity';

/** @param source a client of the class; undefined: they are the same */
export function differingPart(a: Answer, b: Answer, source: string): Part | undefined {
  if (a.verdict !== b.verdict) return 'verdict';
  if (a.verdict !== 'forward' && a.verdict !== 'mixed') return undefined;
  const isPaired = (holds: (one: PossibleBackend, other: PossibleBackend) => boolean): boolean =>
    a.backends.length === b.backends.length &&
    a.backends.every((one, index) => holds(one, b.backends[index] ?? one));
  if (!isPaired((one, other) => one.text === other.text)) return 'backends';
  if (!isPaired((one, other) => Math.abs(one.share - other.share) < TOLERANCE)) return 'shares';
  const own = hostPort(source, 0).slice(0, -1);
  const isSame = (one: PossibleBackend, other: PossibleBackend): boolean =>
    one.masquerade === other.masquerade;
  if (!isPaired((one, other) => isSame(one, other) || one.text.startsWith(own)))
    return 'masquerade';
  if (!isPaired(isSame)) return 'hairpin';
  return a.affinitySeconds === b.affinitySeconds ? undefined : 'affinity';
}

const PER_CENT = 100;

/** `10.1.1.5:8080 10.1.2.5:8080 masqueraded`, `reject` */
export function answerText({ verdict, backends, affinitySeconds }: Answer): string {
  if (verdict !== 'forward' && verdict !== 'mixed') return verdict;
  const isEven = backends.every(({ share }) => Math.abs(share - 1 / backends.length) < TOLERANCE);
  const list = backends.map(
    ({ text, share }) => `${text}${isEven ? '' : ` ${(share * PER_CENT).toFixed(2)} %`}`,
  );
  const masqueraded = backends.filter(({ masquerade }) => masquerade === true).length;
  const how =
    masqueraded === 0
      ? ''
      : masqueraded === backends.length
        ? ', masqueraded'
        : `, ${masqueraded} of ${backends.length} masqueraded`;
  const kept =
    affinitySeconds === 0
      ? ''
      : affinitySeconds === undefined
        ? ', session affinity is broken'
        : `, session affinity ${affinitySeconds} s`;
  return `${verdict === 'mixed' ? 'mixed: ' : ''}${list.join(' ')}${how}${kept}`;
}
