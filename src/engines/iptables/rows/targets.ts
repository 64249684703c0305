// SPDX-License-Identifier: Apache-2.0
// Matches and targets that several chains use.
import { isZeroPrefix } from '../../../lib/ip.ts';
import type { LocalDetector } from '../../../plan/types.ts';
import { KUBE_MARK_MASQ } from '../rules/names.ts';
import type { Rule, Target } from '../rules/types.ts';

export const jumpTo = (chain: string): Target => ({ kind: 'jump', chain });

/** Masquerades what leaves the node. */
export const MASQUERADE: Target = jumpTo(KUBE_MARK_MASQ);

export const DROP: Target = jumpTo('DROP');
export const ACCEPT: Target = jumpTo('ACCEPT');
export const RETURN: Target = jumpTo('RETURN');
export const REJECT: Target = { kind: 'reject' };

type Match = Pick<Rule, 'source' | 'inInterface'>;

/** What pods send. */
export function fromPods(detector: LocalDetector): Match {
  switch (detector.kind) {
    case 'cidr':
      return { source: { prefix: detector.cidr } };
    case 'interface':
      return { inInterface: { name: detector.name } };
    case 'interface-prefix':
      return { inInterface: { name: `${detector.prefix}+` } };
  }
}

/**
 * What others send; undefined: nobody else does, which iptables-nft refuses to say. What a process of the node sends
 * has no device yet.
 */
export function notFromPods(detector: LocalDetector): Match | undefined {
  const { source, inInterface } = fromPods(detector);
  if (source !== undefined && isZeroPrefix(source.prefix)) return undefined;
  return {
    ...(source && { source: { ...source, not: true } }),
    ...(inInterface && { inInterface: { ...inInterface, not: true } }),
  };
}
