// SPDX-License-Identifier: Apache-2.0
// One Service -> its fragment of the rules of one family: a function of its plan and the context alone, so that an
// unchanged Service need not be rendered again.
import type { ServicePlan, ServicePortPlan } from '../../../plan/types.ts';
import { servicePortName } from '../rules/names.ts';
import { type Fragment, joinFragments } from './fragment.ts';
import { renderPort } from './service-port.ts';
import type { ServiceContext } from './settings.ts';
import { ACCEPT } from './targets.ts';

export const renderService = (service: ServicePlan, context: ServiceContext): Fragment =>
  joinFragments(
    service.ports
      .filter(({ family }) => family === context.family)
      .map((port) => ({
        ...renderPort(port, context),
        healthChecks: healthCheckRules(service, port),
      })),
  );

/** Whether or not this node has an endpoint: the answer says so. As in kube-proxy, each port has the rule. */
const healthCheckRules = (
  { healthCheck }: ServicePlan,
  port: ServicePortPlan,
): Fragment['healthChecks'] =>
  healthCheck?.families.includes(port.family)
    ? [
        {
          comment: `${servicePortName(port)} health check node port`,
          protocol: 'TCP',
          destinationPort: healthCheck.port,
          target: ACCEPT,
        },
      ]
    : [];
