// SPDX-License-Identifier: Apache-2.0
// The plan where the kernel has no direct return: what goes to backends of other nodes is masqueraded, as without it. Pure.
import type { Frontend, Plan, ServicePlan, TrafficRule } from '../../../plan/types.ts';
import { mappedView } from '../../mapped-view.ts';

/** The same plan, and the same Service, gives the identical (===) one; Services that ask for nothing are the plan's own. */
export function withoutDirectReturn(): (plan: Plan) => Plan {
  const plans = new WeakMap<Plan, Plan>();
  const services = new WeakMap<ServicePlan, ServicePlan>();
  const serviceOf = (service: ServicePlan): ServicePlan => {
    if (!asks(service)) return service;
    const known = services.get(service) ?? masqueraded(service);
    services.set(service, known);
    return known;
  };
  return (plan) => {
    const { wantsDirectReturn: _, ...rest } = plan;
    const known = plans.get(plan) ?? { ...rest, services: mappedView(plan.services, serviceOf) };
    plans.set(plan, known);
    return known;
  };
}

const asks = ({ ports }: ServicePlan): boolean =>
  ports.some(({ frontends }) => frontends.some(({ rules }) => rules.outside.directReturn === true));

const masqueraded = (service: ServicePlan): ServicePlan => ({
  ...service,
  ports: service.ports.map((port) => ({ ...port, frontends: port.frontends.map(withoutTunnel) })),
});

const withoutTunnel = (frontend: Frontend): Frontend => ({
  ...frontend,
  rules: { ...frontend.rules, outside: ruleOf(frontend.rules.outside) },
});

function ruleOf({ directReturn: _, ipip: __, ...rule }: TrafficRule): TrafficRule {
  return rule;
}
