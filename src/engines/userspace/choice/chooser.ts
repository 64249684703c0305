// SPDX-License-Identifier: Apache-2.0
// The choice for one new connection: by session affinity where it remembers a backend of the client's set, else by the
// algorithm.
import type { Backend, Plan, ServicePortPlan } from '../../../plan/types.ts';
import type { Capabilities } from '../../capabilities.ts';
import type { Listener } from '../listeners/listeners.ts';
import { createAffinity } from './affinity.ts';
import { type BalancerParts, backendText, createBalancer } from './balancer.ts';
import { type Connecting, verdictOf } from './verdict.ts';

export type Choice =
  | { readonly kind: 'forward'; readonly backend: Backend; readonly isRemembered: boolean }
  | { readonly kind: 'reject' | 'drop' };

export interface Chooser {
  choose(plan: Plan, listener: Listener, connecting: Connecting): Choice;
  /** What is remembered of other service ports is forgotten. */
  keep(ports: Iterable<ServicePortPlan>): void;
}

export interface ChooserParts extends BalancerParts {
  readonly capabilities: Pick<Capabilities, 'algorithms'>;
  readonly nowMs: () => number;
}

export function createChooser({ capabilities, nowMs, ...parts }: ChooserParts): Chooser {
  const balancer = createBalancer(parts);
  const affinity = createAffinity();
  return {
    choose(plan, listener, connecting) {
      const verdict = verdictOf(plan, listener, connecting, capabilities);
      if (verdict.kind !== 'forward') return { kind: verdict.kind };
      const { key, affinityTimeoutSeconds } = listener.port;
      const { candidates, algorithm } = verdict;
      const { client } = connecting;
      const isSticky = affinityTimeoutSeconds > 0;
      const text = isSticky
        ? affinity.backendOf(key, client, affinityTimeoutSeconds * 1000, nowMs())
        : undefined;
      const known = candidates.find(({ backend }) => backendText(backend) === text)?.backend;
      const backend = known ?? balancer.choose({ port: key, algorithm, candidates, client });
      if (isSticky) affinity.note(key, client, backendText(backend), nowMs());
      return { kind: 'forward', backend, isRemembered: known !== undefined };
    },
    keep(ports) {
      const timeouts = new Map<string, number>();
      for (const { key, affinityTimeoutSeconds } of ports) {
        timeouts.set(key, affinityTimeoutSeconds * 1000);
      }
      balancer.keep(new Set(timeouts.keys()));
      affinity.keep(timeouts, nowMs());
    },
  };
}
