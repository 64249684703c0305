// SPDX-License-Identifier: Apache-2.0
// The Service that a line of iptables-restore belongs to: by its comment, or by its chain.
import type { Plan, ServiceKey, ServicePortPlan } from '../../../../plan/types.ts';
import { endpointChain, serviceChains } from '../../rules/names.ts';
import { isOfService } from './ours.ts';

/** undefined: nobody's, or not known. */
export function serviceOfLine(line: string | undefined, plan: Plan): ServiceKey | undefined {
  const comment = /--comment "([^"]*)"/.exec(line ?? '')?.[1] ?? '';
  const named = [...comment.matchAll(/[^\s/:]+\/[^\s/:]+/g)].map(([key]) => key);
  const chain = /^-\w (\S+)/.exec(line ?? '')?.[1] ?? '';
  return (
    named.find((key) => plan.services.has(key)) ??
    (isOfService(chain) ? ownerOfChain(chain, plan) : undefined)
  );
}

/** Computes the names of all chains: only for an error. */
function ownerOfChain(chain: string, { services }: Plan): ServiceKey | undefined {
  for (const [key, { ports }] of services) {
    if (ports.some((port) => chainsOf(port).has(chain))) return key;
  }
  return undefined;
}

const chainsOf = (port: ServicePortPlan): ReadonlySet<string> =>
  new Set([
    ...Object.values(serviceChains(port)),
    ...[...port.cluster, ...port.local].map((backend) => endpointChain(port, backend)),
  ]);
