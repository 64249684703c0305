// SPDX-License-Identifier: Apache-2.0
// Composes what proves the kernel of a running agent.
import type { Agent } from '../../agent/agent.ts';
import type { ComposedDataplane } from '../../engines/dataplane.ts';
import type { Logger } from '../../log.ts';
import type { NodeSockets } from '../../plan/node-sockets/frontends.ts';
import { createPlanner } from '../../plan/planner.ts';
import type { Plan, PlanSettings } from '../../plan/types.ts';
import type { Source } from '../../source/source.ts';
import { inSlices, SYSTEM_CLOCK } from '../../sys/clock.ts';
import { differencesInSteps } from '../../verify/differences.ts';
import { Verifier } from './verifier.ts';

const SLICE_MS = 10;

export interface VerifyFollower extends Pick<Verifier, 'now' | 'view'> {
  nodeHas(sockets: NodeSockets): void;
  close(): void;
}

export function openVerify(parts: {
  readonly agent: Pick<Agent, 'state' | 'audit'>;
  readonly dataplane: ComposedDataplane;
  readonly source: Source;
  readonly plan: PlanSettings;
  readonly log: Logger;
}): VerifyFollower {
  const { agent, dataplane, source, log } = parts;
  const list = source.independent?.();
  const planner = createPlanner(parts.plan);
  const planned = async (): Promise<Plan | undefined> => {
    if (!agent.state().isReady) return undefined;
    if (list === undefined) return agent.state().plan;
    const watches = source.cluster?.()?.watches ?? [];
    const atLeast = watches.map(({ kind, resourceVersion }) => [kind, resourceVersion] as const);
    return planner.apply((await list.read(Object.fromEntries(atLeast))).changes);
  };
  const verifier = new Verifier({
    ...{ clock: SYSTEM_CLOCK, log },
    against: list === undefined ? 'plan' : 'API server',
    read: async () => {
      const plan = await planned();
      if (plan === undefined) return undefined;
      const { frontends } = await dataplane.snapshot();
      const { dataplanes } = dataplane;
      const steps = differencesInSteps({ plan, views: frontends, dataplanes });
      const found = await inSlices(steps, SLICE_MS);
      const own = agent.state().plan;
      if (found === undefined) return undefined;
      if (found.size === 0 || list === undefined || own === undefined)
        return { plan, found, misplanned: new Set() };
      const drift = differencesInSteps({ plan: own, views: frontends, dataplanes });
      const drifted = await inSlices(drift, SLICE_MS);
      const misplanned = [...found.keys()].filter((service) => drifted?.has(service) === false);
      return { plan, found, misplanned: new Set(misplanned) };
    },
    repair: async () => void (await agent.audit()),
    relist: source.relist?.bind(source),
    cpuMs: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000;
    },
  });
  return {
    now: () => verifier.now(),
    view: () => verifier.view(),
    nodeHas: (sockets) => planner.nodeHas(sockets),
    close() {
      verifier.close();
      void list?.close();
    },
  };
}
