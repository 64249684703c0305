// SPDX-License-Identifier: Apache-2.0
// The plan as rules of iptables, in kube-proxy's layout (syncProxyRules in its proxier.go; docs/semantics.md lists what
// differs): render() is the whole of both families, and createRenderer() keeps what did not change, because rendering
// 10,000 Services anew takes many times as long as one.
import { familyOf } from '../../../lib/ip.ts';
import { compareText } from '../../../lib/names.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import type { Plan, ServicePlan, ServicePortPlan } from '../../../plan/types.ts';
import { servicePortName } from '../rules/names.ts';
import type { Ruleset } from '../rules/types.ts';
import { type Fragment, joinFragments } from './fragment.ts';
import { filterJumps, NAT_JUMPS } from './jumps.ts';
import { type NodePortAddresses, nodePortAddresses } from './node-ports.ts';
import { renderPort } from './service-port.ts';
import type { RenderSettings, ServiceContext } from './settings.ts';
import { filterChains, mangleChains, natChains, type SharedParts } from './shared-chains.ts';
import { ACCEPT } from './targets.ts';

export interface Renderer {
  /** An unchanged Service (===) keeps its identical chains (===) and the identical rules in shared ones. */
  render(plan: Plan): readonly Ruleset[];
}

export const render = (plan: Plan, settings: RenderSettings): readonly Ruleset[] =>
  createRenderer(settings).render(plan);

export function createRenderer(settings: RenderSettings): Renderer {
  const families = {
    IPv4: createFamilyRenderer(settings, 'IPv4'),
    IPv6: createFamilyRenderer(settings, 'IPv6'),
  };
  return {
    render(plan) {
      const services = sortedServices(plan);
      return FAMILIES.map((family) => families[family](plan, services));
    },
  };
}

/** @param services of the plan, in the order of their rules */
type FamilyRenderer = (plan: Plan, services: readonly ServicePlan[]) => Ruleset;

function createFamilyRenderer(settings: RenderSettings, family: Family): FamilyRenderer {
  let isLarge = false;
  let known = new WeakMap<ServicePlan, Fragment>();
  let knownContext = '';
  let last: { readonly fragments: readonly Fragment[]; readonly ruleset: Ruleset } | undefined;
  const fragmentOf = (service: ServicePlan, context: ServiceContext): Fragment => {
    const fragment = known.get(service) ?? renderService(service, context);
    known.set(service, fragment);
    return fragment;
  };
  return (plan, services) => {
    isLarge = isLargeCluster(endpointCount(services, family), isLarge);
    const addresses = nodePortAddresses(plan, settings, family);
    const context = contextOf(plan, settings, addresses, isLarge);
    const text = JSON.stringify([context, addresses]);
    if (text !== knownContext) {
      known = new WeakMap();
      last = undefined;
      knownContext = text;
    }
    const fragments = services.map((service) => fragmentOf(service, context));
    if (last !== undefined && areIdentical(last.fragments, fragments)) return last.ruleset;
    const { chains, ...shared } = joinFragments(fragments);
    const { serviceCidrs } = context;
    const parts: SharedParts = { family, settings, addresses, serviceCidrs, services: shared };
    const ruleset: Ruleset = {
      family,
      tables: [
        { name: 'mangle', chains: mangleChains(), jumps: [] },
        { name: 'filter', chains: filterChains(parts), jumps: filterJumps(addresses.hasLocalhost) },
        { name: 'nat', chains: [...natChains(parts), ...chains], jumps: NAT_JUMPS },
      ],
    };
    last = { fragments, ruleset };
    return ruleset;
  };
}

/** A change of a Service often concerns one family only. */
const areIdentical = (some: readonly Fragment[], others: readonly Fragment[]): boolean =>
  some.length === others.length && some.every((one, at) => one === others[at]);

/** By name, so that equal plans give equal rules; kube-proxy's order is that of a map of Go, a random one. */
const sortedServices = ({ services }: Plan): readonly ServicePlan[] =>
  [...services.entries()].sort(([a], [b]) => compareText(a, b)).map(([, service]) => service);

function contextOf(
  { detector, serviceCidrs }: Plan,
  { accounting }: RenderSettings,
  { family, hasLocalhost }: NodePortAddresses,
  isLargeCluster: boolean,
): ServiceContext {
  return {
    family,
    detector: detector[family],
    isLargeCluster,
    countsLocalhostNodePorts: hasLocalhost && accounting.includes('localhost_nps_accepted_pkts'),
    serviceCidrs: serviceCidrs.filter((cidr) => familyOf(cidr) === family),
  };
}

/** Of all service ports, whether or not this node uses them. */
const endpointCount = (services: readonly ServicePlan[], family: Family): number =>
  services.reduce(
    (sum, { ports }) =>
      ports.reduce(
        (count, port) => count + (port.family === family ? port.serving.length : 0),
        sum,
      ),
    0,
  );

/** kube-proxy's largeClusterEndpointsThreshold. */
const LARGE_CLUSTER = 1000;

/** A cluster near the threshold would have all its rules rewritten at every step over it, so it stays large for a while. */
const isLargeCluster = (endpoints: number, isLarge: boolean): boolean =>
  endpoints > (isLarge ? 0.8 * LARGE_CLUSTER : LARGE_CLUSTER);

const renderService = (service: ServicePlan, context: ServiceContext): Fragment =>
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
