// SPDX-License-Identifier: Apache-2.0
// Matches and statements that several chains use, as nft prints them.
import { isZeroPrefix } from '../../../lib/ip.ts';
import type { Family } from '../../../model/types.ts';
import type { LocalDetector } from '../../../plan/types.ts';
import type { Blocks } from './blocks.ts';

/** What the rules of a Service depend on besides its plan, in one family. */
export interface RenderContext {
  readonly family: Family;
  readonly detector: LocalDetector | undefined;
  /** The bit of a packet's mark that says "masquerade". */
  readonly mark: number;
  readonly blocks: Blocks;
}

export const IP = { IPv4: 'ip', IPv6: 'ip6' } as const satisfies Record<Family, string>;

export const joinRules = (rules: readonly string[]): string => rules.join('\n');

export const markText = (mark: number): string => `0x${mark.toString(16).padStart(8, '0')}`;

export const markRule = (mark: number): string => `meta mark set meta mark | ${markText(mark)}`;

/** nft prints an address without the length of its prefix. */
export const prefixText = (prefix: string): string => prefix.replace(/(?<=\..*)\/32$|\/128$/, '');

/** What pods send. */
export function fromPods(detector: LocalDetector, family: Family, not = ''): string {
  switch (detector.kind) {
    case 'cidr':
      return `${IP[family]} saddr ${not}${prefixText(detector.cidr)}`;
    case 'interface':
      return `iifname ${not}"${detector.name}"`;
    case 'interface-prefix':
      return `iifname ${not}"${detector.prefix}*"`;
  }
}

/** What others send; undefined: nobody else does. */
export const notFromPods = (detector: LocalDetector, family: Family): string | undefined =>
  detector.kind === 'cidr' && isZeroPrefix(detector.cidr)
    ? undefined
    : fromPods(detector, family, '!= ');
