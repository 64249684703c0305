// SPDX-License-Identifier: Apache-2.0
// Keeps a plan current: takes changes of objects and rebuilds only the Services they touch. The result always
// equals `buildAll` of the current objects, in whatever order they came. No I/O.
import { isSame } from '../lib/json.ts';
import { compareText } from '../lib/names.ts';
import type { ObjectChange, ObjectRef, Service } from '../model/types.ts';
import { buildContext, type NodeContext } from './decide/node-context.ts';
import { type BuildContext, buildService } from './decide/service-plan.ts';
import { createModelStore } from './model-store.ts';
import type { Plan, PlanDelta, PlanSettings, ServiceKey, ServicePlan } from './types.ts';

export interface Planner {
  /** Applies the changes in order. Never throws, whatever the objects contain. */
  readonly apply: (changes: readonly ObjectChange[]) => PlanDelta;
  /** The plan of everything applied so far. */
  readonly current: () => Plan;
}

/** Cost of `apply`: linear in the Services that the changes touch; all of them if this node's Node object changed. */
export function createPlanner(settings: PlanSettings): Planner {
  const model = createModelStore(settings);
  const services = new Map<ServiceKey, ServicePlan>();
  let nodeContext: NodeContext | undefined;
  let context: BuildContext | undefined;

  const current = (): Plan => ({
    services,
    ...(nodeContext ?? model.nodeContext()),
    rejections: model.rejections.list(),
  });

  const renewNodeContext = (): boolean => {
    const renewed = model.nodeContext();
    if (nodeContext !== undefined && isSame(apart(nodeContext), apart(renewed))) {
      nodeContext = withNeighbours(nodeContext, renewed);
      return false;
    }
    nodeContext = renewed;
    context = buildContext(settings, renewed, model.owners);
    return true;
  };

  /** Replaces the Service's plan unless the new one is equal; returns true if it did. */
  const rebuild = (key: ServiceKey, before: ServicePlan | undefined): boolean => {
    const service = model.services.get(key);
    if (service === undefined || context === undefined) return services.delete(key);
    const built = buildService(service, model.slices.of(key), context);
    model.rejections.set('plan', refOf(service), built.rejections);
    if (before !== undefined && isSame(before, built.plan)) return false;
    services.set(key, built.plan);
    return true;
  };

  const apply = (changes: readonly ObjectChange[]): PlanDelta => {
    const touched = new Set<ServiceKey>();
    const isNodeWide = model.take(changes, touched) || nodeContext === undefined;
    for (const key of model.owners.resolve()) touched.add(key);
    const isGlobal = isNodeWide && renewNodeContext();
    const changed: ServiceKey[] = [];
    const previous = new Map<ServiceKey, ServicePlan>();
    for (const key of isGlobal ? model.services.keys() : []) touched.add(key);
    for (const key of touched) {
      const before = services.get(key);
      if (!rebuild(key, before)) continue;
      changed.push(key);
      if (before !== undefined) previous.set(key, before);
    }
    return { plan: current(), changed: changed.sort(compareText), previous, isGlobal };
  };

  return { apply, current };
}

const refOf = ({ namespace, name }: Service): ObjectRef => ({ kind: 'Service', namespace, name });

/** What Services depend on: not on other Nodes, which come and go in numbers. */
const apart = ({ node: { others, peers, ...node }, ...context }: NodeContext): unknown => ({
  ...context,
  node,
});

/** All else stays the same object. */
function withNeighbours(
  context: NodeContext,
  { node: { others, peers } }: NodeContext,
): NodeContext {
  const { node } = context;
  if (isSame(node.others, others) && isSame(node.peers, peers)) return context;
  return { ...context, node: { ...node, others, ...(peers && { peers }) } };
}
