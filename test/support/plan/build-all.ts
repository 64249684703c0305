// SPDX-License-Identifier: Apache-2.0
// A whole plan from a whole set of objects, in one pass: the reference that `createPlanner` must always agree with. Pure.
import { compareText } from '../../../src/lib/names.ts';
import { persistentMap } from '../../../src/lib/persistent/map.ts';
import { projectSlice } from '../../../src/model/endpoints/slice.ts';
import { projectNode } from '../../../src/model/node/node.ts';
import { projectService } from '../../../src/model/service/service.ts';
import { projectServiceCidr } from '../../../src/model/service/service-cidr.ts';
import { createSharing, type Sharing } from '../../../src/model/sharing.ts';
import type {
  EndpointSlice,
  Kind,
  ObjectRef,
  Projection,
  Rejection,
  Service,
} from '../../../src/model/types.ts';
import { frontendKeysOf } from '../../../src/plan/decide/frontends.ts';
import { buildContext, nodeContextOf } from '../../../src/plan/decide/node-context.ts';
import { type IncumbentOf, ownerAmong } from '../../../src/plan/decide/ownership.ts';
import { buildService, serviceKey } from '../../../src/plan/decide/service-plan.ts';
import {
  directReturnFlag,
  serviceWantsDirectReturn,
} from '../../../src/plan/direct-return/asked.ts';
import { exposedService, type NodeLabels } from '../../../src/plan/exposure/exposure.ts';
import { orderRejections } from '../../../src/plan/model-store.ts';
import { isOnNode, NO_NODE_SOCKETS, onNodeFlag } from '../../../src/plan/node-sockets/frontends.ts';
import type { Plan, PlanSettings, ServiceKey, ServicePlan } from '../../../src/plan/types.ts';
import { counting } from '../../../src/plan/versions.ts';

export interface NamedObject {
  readonly ref: ObjectRef;
  readonly object: unknown;
}

type Project<T> = (ref: ObjectRef, object: unknown, sharing: Sharing) => Projection<T>;

/**
 * Each object once; the order of `objects` does not matter. Never throws.
 * @param incumbentOf the Service that serves a frontend already, as `frontendKeysOf` writes it
 */
export function buildAll(
  objects: readonly NamedObject[],
  settings: PlanSettings,
  incumbentOf: IncumbentOf = () => undefined,
  nodeSockets = NO_NODE_SOCKETS,
): Plan {
  const rejections: (readonly Rejection[])[] = [];
  const sharing = createSharing();
  const read = <T>(kind: Kind, project: Project<T>): T[] =>
    objects.flatMap(({ ref, object }) => {
      if (ref.kind !== kind) return [];
      const projection = project(ref, object, sharing);
      rejections.push(projection.rejections.map(counting));
      return projection.value === undefined ? [] : [projection.value];
    });
  const nodes = read('Node', projectNode);
  const nodeContext = nodeContextOf(
    settings,
    new Map(nodes.map((node) => [node.name, node])),
    read('ServiceCIDR', projectServiceCidr),
  );
  const services = read('Service', projectService);
  const slices = slicesByService(read('EndpointSlice', projectSlice));
  const owners = ownersOf(services, settings, nodeContext.node.labels, incumbentOf);
  const otherOwner = (frontend: string, asking: ServiceKey): ServiceKey | undefined => {
    const owner = owners.get(frontend);
    return owner === asking ? undefined : owner;
  };
  const owning = { hasConflicts: () => true, otherOwner };
  const context = buildContext(settings, nodeContext, owning, nodeSockets);
  const plans = new Map<ServiceKey, ServicePlan>();
  for (const service of services) {
    const key = serviceKey(service);
    const built = buildService(service, slices.get(key) ?? [], context);
    plans.set(key, built.plan);
    rejections.push(built.rejections);
  }
  const direct = new Set([...plans.values()].filter(serviceWantsDirectReturn));
  const onNode = [...plans].flatMap(([key, plan]) => (isOnNode(plan) ? [key] : []));
  return {
    services: persistentMap(plans),
    ...directReturnFlag(direct),
    ...onNodeFlag(new Set(onNode)),
    ...nodeContext,
    rejections: orderRejections(rejections),
  };
}

function slicesByService(
  slices: readonly EndpointSlice[],
): ReadonlyMap<ServiceKey, readonly EndpointSlice[]> {
  const found = new Map<ServiceKey, EndpointSlice[]>();
  for (const slice of slices.toSorted((a, b) => compareText(a.name, b.name))) {
    const siblings = found.get(slice.service);
    if (siblings === undefined) found.set(slice.service, [slice]);
    else siblings.push(slice);
  }
  return found;
}

function ownersOf(
  services: readonly Service[],
  settings: PlanSettings,
  labels: NodeLabels,
  incumbentOf: IncumbentOf,
): ReadonlyMap<string, ServiceKey | undefined> {
  const byKey = new Map(services.map((service) => [serviceKey(service), service]));
  const contenders = new Map<string, ServiceKey[]>();
  for (const [key, service] of byKey) {
    for (const frontend of frontendKeysOf(
      exposedService(service, labels),
      settings.allowExternalIps,
    )) {
      const others = contenders.get(frontend);
      if (others === undefined) contenders.set(frontend, [key]);
      else others.push(key);
    }
  }
  const ownerOf = (frontend: string, keys: readonly ServiceKey[]): ServiceKey | undefined =>
    ownerAmong(keys, incumbentOf(frontend), (key) => byKey.get(key));
  return new Map([...contenders].map(([frontend, keys]) => [frontend, ownerOf(frontend, keys)]));
}
