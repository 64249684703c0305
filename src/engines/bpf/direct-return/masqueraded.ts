// SPDX-License-Identifier: Apache-2.0
// The plan where the kernel has no direct return: what goes to backends of other nodes is masqueraded, as without it. Pure.
import { createMapping } from '../../../lib/persistent/mapping.ts';
import type { Frontend, Plan, ServicePlan, TrafficRule } from '../../../plan/types.ts';

/** A Service that does not change from plan to plan is the identical (===) one; those that ask for nothing are the plan's own. */
export function withoutDirectReturn(): (plan: Plan) => Plan {
  const masqueradedIn = createMapping<ServicePlan>((service) =>
    asks(service) ? masqueraded(service) : service,
  );
  return ({ wantsDirectReturn: _, services, ...rest }) => ({
    ...rest,
    services: masqueradedIn(services),
  });
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
