// SPDX-License-Identifier: Apache-2.0
// Composes what an agent with --shadow does beside planning.
import type { Agent } from '../../agent/agent.ts';
import { withoutOwnAnnotations } from '../../compare/plain.ts';
import { reasonOf } from '../../errors.ts';
import { isLoopback } from '../../lib/ip.ts';
import type { Logger } from '../../log.ts';
import { FAMILIES, type ObjectChange } from '../../model/types.ts';
import type { Differing, ShadowView } from '../../observe/shadow-view.ts';
import type { NodeSockets } from '../../plan/node-sockets/frontends.ts';
import { createPlanner } from '../../plan/planner.ts';
import type { Plan, PlanSettings } from '../../plan/types.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import type { NodeAddresses } from '../../sys/netlink/node-addresses.ts';
import { rulesOnNode, rulesVersion } from './read-rules.ts';
import { recordPath, writeRecord } from './record.ts';
import { Shadow } from './shadow.ts';

export interface ShadowSettings {
  readonly waitMs: number;
}

export interface ShadowFollower {
  /** To be called with all that the agent accepts. */
  arrived(changes: readonly ObjectChange[]): void;
  nodeHas(sockets: NodeSockets): void;
  /** The agent has a complete plan, perhaps another one. */
  planned(): void;
  view(): ShadowView;
  close(): void;
}

export function openShadow(
  { waitMs }: ShadowSettings,
  parts: {
    readonly agent: Pick<Agent, 'state'>;
    readonly plan: PlanSettings;
    readonly runDir: string;
    readonly addresses: NodeAddresses;
    readonly onView: (view: ShadowView) => void;
    readonly log: Logger;
  },
): ShadowFollower {
  const { agent, addresses, runDir, onView, log } = parts;
  const planner = createPlanner(parts.plan);
  let plain: Plan | undefined;
  let lastProblem: string | undefined;
  const record = (differing: readonly Differing[]): void => {
    let problem: string | undefined;
    try {
      writeRecord(runDir, { at: new Date(SYSTEM_CLOCK.nowMs()).toISOString(), differing });
    } catch (error) {
      problem = reasonOf(error);
    }
    if (problem !== undefined && problem !== lastProblem)
      log.warn({ reason: problem }, `${recordPath(runDir)} cannot be written`);
    lastProblem = problem;
  };
  const shadow = new Shadow({
    ...{ waitMs, rulesVersion, clock: SYSTEM_CLOCK, log },
    readRules: () => rulesOnNode(FAMILIES),
    plans: () => {
      const { plan, isReady } = agent.state();
      return plan === undefined || plain === undefined || !isReady ? undefined : { plan, plain };
    },
    addresses: () =>
      addresses
        .current()
        .map(({ address }) => address)
        .filter((address) => !isLoopback(address)),
    onView,
    onProven: record,
  });
  return {
    arrived(changes) {
      plain = planner.apply(withoutOwnAnnotations(changes));
    },
    nodeHas(sockets) {
      planner.nodeHas(sockets);
      plain = planner.apply([]);
    },
    planned: () => shadow.planned(),
    view: () => shadow.view(),
    close: () => shadow.close(),
  };
}
