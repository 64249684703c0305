// SPDX-License-Identifier: Apache-2.0
// Chooses a backend for a new connection. Chance and counts of connections are given to it.
import { hostPort } from '../../../lib/address-bytes.ts';
import { murmur3 } from '../../../lib/murmur3.ts';
import type { Algorithm } from '../../../model/types.ts';
import type { Backend } from '../../../plan/types.ts';
import type { Candidate } from './verdict.ts';

export const backendText = ({ address, port }: Backend): string => hostPort(address, port);

export interface Asking {
  /** Of the service port: positions of a round are shared by its frontends. */
  readonly port: string;
  readonly algorithm: Algorithm;
  /** At least one. */
  readonly candidates: readonly Candidate[];
  readonly client: string;
}

export interface BalancerParts {
  /** At least 0, below 1. */
  readonly random: () => number;
  /** Connections of the service port to the backend now. */
  readonly openTo: (port: string, backend: string) => number;
}

export interface Balancer {
  choose(asking: Asking): Backend;
  /** Forgets service ports that are gone. */
  keep(ports: ReadonlySet<string>): void;
}

/** Of larger sets one of two at random is chosen. */
const COMPARED = 8;

export function createBalancer({ random, openTo }: BalancerParts): Balancer {
  /** Smooth weighted round robin, as nginx has it: by service port, then by backend. */
  const rounds = new Map<string, Map<string, number>>();

  function next({ port, candidates }: Asking): Candidate {
    const former = rounds.get(port);
    const credits = new Map<string, number>();
    let best: Candidate | undefined;
    let bestCredit = Number.NEGATIVE_INFINITY;
    let total = 0;
    for (const candidate of candidates) {
      const text = backendText(candidate.backend);
      const credit = (former?.get(text) ?? 0) + candidate.weight;
      total += candidate.weight;
      credits.set(text, credit);
      if (credit > bestCredit) [best, bestCredit] = [candidate, credit];
    }
    const chosen = best ?? first(candidates);
    credits.set(backendText(chosen.backend), bestCredit - total);
    rounds.set(port, credits);
    return chosen;
  }

  function least({ port, candidates }: Asking): Candidate {
    const compared =
      candidates.length > COMPARED
        ? [drawn(candidates, random), drawn(candidates, random)]
        : candidates;
    const loadOf = ({ backend, weight }: Candidate): number =>
      (openTo(port, backendText(backend)) + 1) / weight;
    const lowest = Math.min(...compared.map(loadOf));
    return evenly(
      compared.filter((candidate) => loadOf(candidate) === lowest),
      random,
    );
  }

  return {
    choose(asking) {
      const { algorithm, candidates } = asking;
      switch (algorithm) {
        case 'round-robin':
        case 'weighted-round-robin':
          return next(asking).backend;
        case 'least-connections':
        case 'weighted-least-connections':
          return least(asking).backend;
        case 'source-hash':
          return byHash(asking).backend;
        default:
          return drawn(candidates, random).backend;
      }
    },
    keep(ports) {
      for (const port of rounds.keys()) if (!ports.has(port)) rounds.delete(port);
    },
  };
}

function first(candidates: readonly Candidate[]): Candidate {
  const [one] = candidates;
  if (one === undefined) throw new Error('a set without backends has no choice');
  return one;
}

const evenly = (candidates: readonly Candidate[], random: () => number): Candidate =>
  candidates[Math.floor(random() * candidates.length)] ?? first(candidates);

function drawn(candidates: readonly Candidate[], random: () => number): Candidate {
  const total = candidates.reduce((sum, { weight }) => sum + weight, 0);
  let left = random() * total;
  for (const candidate of candidates) {
    left -= candidate.weight;
    if (left < 0) return candidate;
  }
  return first(candidates);
}

/** Rendezvous hashing by weight: a backend that comes or goes moves its own clients alone. */
function byHash({ candidates, client }: Asking): Candidate {
  const scoreOf = ({ backend, weight }: Candidate): number =>
    -weight / Math.log((murmur3(`${client} ${backendText(backend)}`, 0) + 1) / (2 ** 32 + 1));
  let [best, bestScore] = [first(candidates), Number.NEGATIVE_INFINITY];
  for (const candidate of candidates) {
    const score = scoreOf(candidate);
    if (score > bestScore) [best, bestScore] = [candidate, score];
  }
  return best;
}
