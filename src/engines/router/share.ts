// SPDX-License-Identifier: Apache-2.0
// The part of a plan that one dataplane serves: each frontend goes, separately for sockets and for packets, to
// the first dataplane that can serve it, and so does the refusal of a ClusterIP's other ports.
//   createSharing([BPF, RULES], 0).planOf(plan) -> the plan without its SCTP ports, which are those of index 1

import { createMapping } from '../../lib/persistent/mapping.ts';
import { CLIENT_POSITIONS } from '../../plan/decide/traffic-rules.ts';
import type {
  ClientPosition,
  Frontend,
  Plan,
  ServicePlan,
  ServicePortPlan,
} from '../../plan/types.ts';
import { type Capabilities, canRefuse, isAble } from '../capabilities.ts';
import { frontendKeyText } from '../entry.ts';

/** The parts of a Service that one dataplane serves. */
export interface Choice {
  readonly hasFrontend: (port: ServicePortPlan, frontend: Frontend) => boolean;
  readonly hasRefusal: (port: ServicePortPlan) => boolean;
}

export interface Sharing {
  /**
   * A Service that is whole is itself, and one of which nothing is left is not there. One that does not change from plan to
   * plan has the identical (===) share.
   */
  planOf(plan: Plan): Plan;
  readonly choice: Choice;
}

/** @param index of the dataplane whose share it is */
export function createSharing(dataplanes: readonly Capabilities[], index: number): Sharing {
  const choice = choiceOf(dataplanes, index);
  const sharesOf = createMapping<ServicePlan>((service) =>
    isWhole(service, choice) ? service : cut(service, choice),
  );
  return { planOf: (plan) => ({ ...plan, services: sharesOf(plan.services) }), choice };
}

function choiceOf(dataplanes: readonly Capabilities[], index: number): Choice {
  const own = dataplanes[index];
  const isFirst = (can: (dataplane: Capabilities, position: ClientPosition) => boolean): boolean =>
    CLIENT_POSITIONS.some(
      (position) => dataplanes.find((dataplane) => can(dataplane, position)) === own,
    );
  return {
    hasFrontend: (port, frontend) =>
      isFirst((dataplane, position) => isAble(dataplane, port, frontend, position)),
    hasRefusal: (port) => isFirst((dataplane, position) => canRefuse(dataplane, port, position)),
  };
}

const isRefusalCut = (port: ServicePortPlan, { hasRefusal }: Choice): boolean =>
  port.refusesOtherPortsOf !== undefined && !hasRefusal(port);

/** True also for a port without frontends, which no dataplane has to serve. */
const isWholePort = (port: ServicePortPlan, choice: Choice): boolean =>
  port.frontends.every((frontend) => choice.hasFrontend(port, frontend)) &&
  !isRefusalCut(port, choice);

const isWhole = ({ ports }: ServicePlan, choice: Choice): boolean =>
  ports.every((port) => isWholePort(port, choice));

/** What is left of the Service; undefined if nothing is. */
export function cut(service: ServicePlan, choice: Choice): ServicePlan | undefined {
  const ports = service.ports.flatMap((port) => cutPort(port, choice));
  return ports.length === 0 ? undefined : { ...service, ports };
}

/** A port may have only its refusal left: other ports are refused on its behalf. */
function cutPort(port: ServicePortPlan, choice: Choice): readonly ServicePortPlan[] {
  if (isWholePort(port, choice)) return [port];
  const frontends = port.frontends.filter((frontend) => choice.hasFrontend(port, frontend));
  const { refusesOtherPortsOf, ...rest } = port;
  const refusal =
    refusesOtherPortsOf === undefined || isRefusalCut(port, choice) ? {} : { refusesOtherPortsOf };
  const isLeft = frontends.length > 0 || 'refusesOtherPortsOf' in refusal;
  return isLeft ? [{ ...rest, ...refusal, frontends }] : [];
}

/** The share, and what else of the Service is programmed already: nothing is removed yet. */
export const shareKeeping = (
  service: ServicePlan,
  choice: Choice,
  isHeld: (frontend: string) => boolean,
): ServicePlan | undefined =>
  cut(service, {
    hasFrontend: (port, frontend) =>
      choice.hasFrontend(port, frontend) || isHeld(textOf(port, frontend)),
    hasRefusal: (port) =>
      choice.hasRefusal(port) ||
      (port.refusesOtherPortsOf !== undefined &&
        isHeld(refusalText(port, port.refusesOtherPortsOf))),
  });

const textOf = ({ family, protocol }: ServicePortPlan, { address, port }: Frontend): string =>
  frontendKeyText({ family, address, port, protocol });

const refusalText = ({ family }: ServicePortPlan, address: string): string =>
  frontendKeyText({ family, address, port: undefined, protocol: undefined });

/** What a dataplane has once it has programmed this share of a Service. */
export const heldTexts = (service: ServicePlan | undefined): readonly string[] =>
  service?.ports.flatMap((port) => [
    ...port.frontends.map((frontend) => textOf(port, frontend)),
    ...(port.refusesOtherPortsOf === undefined
      ? []
      : [refusalText(port, port.refusesOtherPortsOf)]),
  ]) ?? [];

/** True if `share` lacks something that `kept` has. */
export const isLess = (share: ServicePlan | undefined, kept: ServicePlan | undefined): boolean =>
  sizeOf(share) < sizeOf(kept);

const sizeOf = (service: ServicePlan | undefined): number =>
  service?.ports.reduce(
    (sum, { frontends, refusesOtherPortsOf }) =>
      sum + frontends.length + (refusesOtherPortsOf === undefined ? 0 : 1),
    0,
  ) ?? 0;
