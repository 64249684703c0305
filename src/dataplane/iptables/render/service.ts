// SPDX-License-Identifier: Apache-2.0
// One Service -> its fragment of the rules of one family: a function of its plan and the context alone, so that an
// unchanged Service need not be rendered again.
import type { ServicePlan } from '../../../plan/types.ts';
import { servicePortName } from '../rules/names.ts';
import type { Rule } from '../rules/types.ts';
import { type Fragment, joinFragments, NO_FRAGMENT } from './fragment.ts';
import { renderPort } from './service-port.ts';
import type { ServiceContext } from './settings.ts';
import { ACCEPT } from './targets.ts';

export function renderService(service: ServicePlan, context: ServiceContext): Fragment {
  const ports = service.ports.filter(({ family }) => family === context.family);
  const healthChecks = healthCheckRules(service, context);
  const fragments = ports.map((port) => renderPort(port, context));
  return joinFragments(
    healthChecks.length === 0 ? fragments : [...fragments, { ...NO_FRAGMENT, healthChecks }],
  );
}

/** Whether or not this node has an endpoint: the answer says so. */
function healthCheckRules(
  { ports, healthCheck }: ServicePlan,
  { family }: ServiceContext,
): readonly Rule[] {
  const first = ports.find((port) => port.family === family);
  if (first === undefined || !healthCheck?.families.includes(family)) return [];
  return [
    {
      comment: `${servicePortName(first)} health check node port`,
      protocol: 'TCP',
      destinationPort: healthCheck.port,
      target: ACCEPT,
    },
  ];
}
