// SPDX-License-Identifier: Apache-2.0
// The jumps from built-in chains, as they stand in their chains once kube-proxy has put them there.
import {
  KUBE_EXTERNAL_SERVICES,
  KUBE_FIREWALL,
  KUBE_FORWARD,
  KUBE_NODEPORTS,
  KUBE_POSTROUTING,
  KUBE_PROXY_FIREWALL,
  KUBE_SERVICES,
} from '../rules/names.ts';
import type { Jump, Rule } from '../rules/types.ts';
import { jumpTo } from './targets.ts';

const NEW: Rule = { states: { any: ['NEW'] } };

const FIREWALL: Rule = {
  ...NEW,
  comment: 'kubernetes load balancer firewall',
  target: jumpTo(KUBE_PROXY_FIREWALL),
};

const SERVICES: Rule = { comment: 'kubernetes service portals', target: jumpTo(KUBE_SERVICES) };

const EXTERNAL: Rule = {
  ...NEW,
  comment: 'kubernetes externally-visible service portals',
  target: jumpTo(KUBE_EXTERNAL_SERVICES),
};

const NODEPORTS: Rule = {
  comment: 'kubernetes health check service ports',
  target: jumpTo(KUBE_NODEPORTS),
};

const FORWARD: Rule = { comment: 'kubernetes forwarding rules', target: jumpTo(KUBE_FORWARD) };

const POSTROUTING: Rule = {
  comment: 'kubernetes postrouting rules',
  target: jumpTo(KUBE_POSTROUTING),
};

/** The kubelet's. */
const MARTIANS: Rule = { target: jumpTo(KUBE_FIREWALL) };

const from = (chain: string, rules: readonly Rule[]): readonly Jump[] =>
  rules.map((rule) => ({ from: chain, rule }));

/** kube-proxy lets a process of the node pass that uses an external address without endpoints; here it is refused, too. */
export const filterJumps = (hasMartianGuard: boolean): readonly Jump[] => {
  const martians = hasMartianGuard ? [MARTIANS] : [];
  return [
    ...from('INPUT', [...martians, FIREWALL, NODEPORTS, EXTERNAL]),
    ...from('FORWARD', [FIREWALL, FORWARD, { ...NEW, ...SERVICES }, EXTERNAL]),
    ...from('OUTPUT', [...martians, FIREWALL, { ...NEW, ...SERVICES }, EXTERNAL]),
  ];
};

export const NAT_JUMPS: readonly Jump[] = [
  ...from('PREROUTING', [SERVICES]),
  ...from('OUTPUT', [SERVICES]),
  ...from('POSTROUTING', [POSTROUTING]),
];
