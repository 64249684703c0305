// SPDX-License-Identifier: Apache-2.0
// Compares the frontends of the plan with the rules of the node, each once: rules that are there before a frontend may close it.
import {
  findObstacle,
  type HostRules,
  mayFilterArrivals,
  type Obstacle,
} from '../../on-node/netfilter/obstacle.ts';
import type { NodeFacts } from '../../on-node/netfilter/question.ts';

export interface Comparison {
  /** With rules that have just been read. */
  readonly all: (rules: HostRules, facts: NodeFacts) => Obstacle | undefined;
  /** With the rules as they were last read: only frontends that they have not been compared with. */
  readonly further: (facts: () => NodeFacts) => Obstacle | undefined;
}

export function createComparison(): Comparison {
  /** Undefined: no filter stands before the translation of addresses. */
  let filters: HostRules | undefined;
  const compared = new Set<string>();
  const isNew = (frontend: NodeFacts['frontends'][number]): boolean => {
    const key = `${frontend.address} ${frontend.port}`;
    if (compared.has(key)) return false;
    compared.add(key);
    return true;
  };
  return {
    all: (rules, facts) => {
      filters = mayFilterArrivals(rules) ? rules : undefined;
      compared.clear();
      if (filters !== undefined) facts.frontends.forEach(isNew);
      return findObstacle(rules, facts);
    },
    further: (factsOf) => {
      if (filters === undefined) return undefined;
      const facts = factsOf();
      const frontends = facts.frontends.filter(isNew);
      return frontends.length === 0 ? undefined : findObstacle(filters, { ...facts, frontends });
    },
  };
}
