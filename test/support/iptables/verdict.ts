// SPDX-License-Identifier: Apache-2.0
// All paths of a packet as one verdict.
import { printJumpRule, printRule } from '../../../src/engines/iptables/rules/print.ts';
import { hostPort } from '../../../src/lib/address-bytes.ts';
import type { Family } from '../../../src/model/types.ts';
import type { Path } from './packet.ts';

export interface Verdict {
  /** `mixed`: not the same on all paths. */
  readonly verdict: 'accept to backend' | 'reject' | 'drop' | 'unmatched' | 'mixed';
  /** By `10.1.1.5:8080`, sorted. */
  readonly backends: readonly PossibleBackend[];
}

export interface PossibleBackend {
  readonly backend: string;
  readonly probability: number;
  readonly masquerade: 'yes' | 'no' | 'mixed';
}

export function verdictOf(paths: readonly Path[]): Verdict {
  const ends = new Set(paths.map(endOf));
  const [end] = ends;
  if (end === undefined) throw new Error('a packet without a path');
  const backends = end === 'accept to backend' ? backendsOf(paths) : [];
  return ends.size === 1 ? { verdict: end, backends } : { verdict: 'mixed', backends: [] };
}

function endOf({ verdict, packet }: Path): Exclude<Verdict['verdict'], 'mixed'> {
  if (verdict !== 'accept') return verdict;
  return packet.isDnat ? 'accept to backend' : 'unmatched';
}

function backendsOf(paths: readonly Path[]): readonly PossibleBackend[] {
  const byBackend = new Map<string, Path[]>();
  for (const path of paths) {
    const backend = hostPort(path.packet.destination, path.packet.destinationPort);
    byBackend.set(backend, [...(byBackend.get(backend) ?? []), path]);
  }
  return [...byBackend]
    .map(([backend, some]) => ({
      backend,
      probability: some.reduce((sum, { probability }) => sum + probability, 0),
      masquerade: masqueradeOf(some),
    }))
    .toSorted((a, b) => (a.backend < b.backend ? -1 : 1));
}

function masqueradeOf(paths: readonly Path[]): PossibleBackend['masquerade'] {
  if (paths.every(({ isMasqueraded }) => isMasqueraded)) return 'yes';
  return paths.some(({ isMasqueraded }) => isMasqueraded) ? 'mixed' : 'no';
}

/** The rules of a path that matched, in order, for the message of a test that fails. */
export function pathText(path: Path, family: Family): string {
  const lines = path.matched.map(({ table, hook, chain, rule }) => {
    const text = chain === hook ? printJumpRule(rule, family) : printRule(rule, family);
    return `  ${hook} ${table} -A ${chain} ${text}`;
  });
  const share = `${(path.probability * 100).toFixed(4)} %`;
  return [`${share} ${endOf(path)}${path.isMasqueraded ? ', masqueraded' : ''}:`, ...lines].join(
    '\n',
  );
}
