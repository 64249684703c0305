// SPDX-License-Identifier: Apache-2.0
// Keeps a plan current: takes changes of objects and rebuilds only the Services they touch. In whatever order they came,
// the result equals that of one pass (buildAll of test/support/plan) over the versions that count (versions.ts) and the
// owners there were. No I/O.
import { isSame } from '../lib/json.ts';
import { persistentMap } from '../lib/persistent/map.ts';
import type { ObjectChange, ObjectRef, Service } from '../model/types.ts';
import { buildContext, type NodeContext } from './decide/node-context.ts';
import type { IncumbentOf } from './decide/ownership.ts';
import { type BuildContext, buildService } from './decide/service-plan.ts';
import { directReturnFlag, serviceWantsDirectReturn } from './direct-return/asked.ts';
import { createModelStore, type ModelOptions } from './model-store.ts';
import { isOnNode, type NodeSockets, onNodeFlag } from './node-sockets/frontends.ts';
import { createKnownSockets } from './node-sockets/known.ts';
import type { Plan, PlanSettings, ServiceKey, ServicePlan } from './types.ts';

export interface Planner {
  /** Applies the changes in order. Never throws, whatever the objects contain. */
  readonly apply: (changes: readonly ObjectChange[]) => Plan;
  /** What an earlier agent has programmed decides ownership conflicts; the next `apply` shows it. Before the first sync. */
  readonly adopt: (incumbentOf: IncumbentOf) => void;
  readonly hasConflicts: () => boolean;
  /** Every other Node there is has been applied. */
  readonly nodesListed: () => void;
  /** What this node has itself, from the next `apply` on. */
  readonly nodeHas: (sockets: NodeSockets) => void;
  /** The plan of everything applied so far: a value, which later changes leave as it is. */
  readonly current: () => Plan;
}

/**
 * Cost of `apply`: linear in the Services that the changes touch; all of them if this node's Node object changed.
 * @param awaitsNodes other Nodes are not known before nodesListed()
 */
export function createPlanner(
  settings: PlanSettings,
  { awaitsNodes = false, ...options }: { readonly awaitsNodes?: boolean } & ModelOptions = {},
): Planner {
  const model = createModelStore(settings, options);
  let services = persistentMap<ServicePlan>();
  const direct = new Set<ServiceKey>();
  const onNode = new Set<ServiceKey>();
  const known = createKnownSockets(model, settings);
  let areNodesListed = !awaitsNodes;
  let areNodesDue = false;
  let nodeContext: NodeContext | undefined;
  let context: BuildContext | undefined;

  const newContext = (): NodeContext =>
    areNodesListed ? model.nodeContext() : withoutPeers(model.nodeContext());

  const current = (): Plan => ({
    services,
    ...directReturnFlag(direct),
    ...onNodeFlag(new Set(onNode)),
    ...(nodeContext ?? newContext()),
    rejections: model.rejections.list(),
  });

  const renewNodeContext = (): boolean => {
    const renewed = newContext();
    if (nodeContext !== undefined && isSame(apart(nodeContext), apart(renewed))) {
      nodeContext = withNeighbours(nodeContext, renewed);
      return false;
    }
    nodeContext = renewed;
    context = buildContext(settings, renewed, model.owners, known.current());
    return true;
  };

  /** The Service's plan: the same object (===) as before if it is equal; undefined: there is no such Service. */
  const rebuilt = (key: ServiceKey, before: ServicePlan | undefined): ServicePlan | undefined => {
    const service = model.services.get(key);
    if (service === undefined || context === undefined) return undefined;
    const built = buildService(service, model.slices.of(key), context);
    model.rejections.set('plan', refOf(service), built.rejections);
    return before !== undefined && isSame(before, built.plan) ? before : built.plan;
  };

  const noteFlags = (key: ServiceKey, plan: ServicePlan | undefined): void => {
    if (plan !== undefined && serviceWantsDirectReturn(plan)) direct.add(key);
    else direct.delete(key);
    if (plan !== undefined && isOnNode(plan)) onNode.add(key);
    else onNode.delete(key);
  };

  const apply = (changes: readonly ObjectChange[]): Plan => {
    const touched = new Set<ServiceKey>();
    const isNodeWide = model.take(changes, touched) || nodeContext === undefined || areNodesDue;
    areNodesDue = false;
    for (const key of model.owners.resolve()) touched.add(key);
    for (const key of known.takeConcerned()) touched.add(key);
    const isGlobal = isNodeWide && renewNodeContext();
    const plans = new Map<ServiceKey, ServicePlan | undefined>();
    for (const key of isGlobal ? model.services.keys() : []) touched.add(key);
    const previous = services;
    for (const key of touched) {
      const before = previous.get(key);
      const plan = rebuilt(key, before);
      if (plan === before) continue;
      plans.set(key, plan);
      noteFlags(key, plan);
    }
    services = previous.withChanges(plans);
    return current();
  };

  const nodesListed = (): void => {
    areNodesDue = !areNodesListed;
    areNodesListed = true;
  };

  const nodeHas = (sockets: NodeSockets): void => {
    known.set(sockets);
    if (context !== undefined) context = { ...context, nodeSockets: sockets };
  };

  const { adopt, hasConflicts } = model.owners;
  return { apply, current, nodesListed, adopt, hasConflicts, nodeHas };
}

const refOf = ({ namespace, name }: Service): ObjectRef => ({ kind: 'Service', namespace, name });

/** What Services depend on: not on other Nodes, which come and go in numbers, and not on direct return to this one. */
const apart = ({ node: { others, peers, isPeer, ...node }, ...context }: NodeContext): unknown => ({
  ...context,
  node,
});

const withoutPeers = ({ node: { peers, ...node }, ...context }: NodeContext): NodeContext => ({
  ...context,
  node,
});

/** All else stays the same object. */
function withNeighbours(
  context: NodeContext,
  { node: { others, peers, isPeer } }: NodeContext,
): NodeContext {
  const { isPeer: wasPeer, ...node } = context.node;
  const isSamePeers = isSame(node.peers, peers);
  if (isSame(node.others, others) && isSamePeers && wasPeer === isPeer) return context;
  const known = isSamePeers ? node.peers : peers;
  const facts = { ...(isPeer && { isPeer }), ...(known && { peers: known }) };
  return { ...context, node: { ...node, others, ...facts } };
}
