// SPDX-License-Identifier: Apache-2.0
// What follows an agent and answers questions about it: the comparison with kube-proxy's rules, the history, the proof of what
// is programmed.
import type { Agent } from '../agent/agent.ts';
import type { ComposedDataplane } from '../engines/dataplane.ts';
import type { Logger } from '../log.ts';
import type { PlanSettings } from '../plan/types.ts';
import type { Source } from '../source/source.ts';
import type { NodeAddresses } from '../sys/netlink/node-addresses.ts';
import { type HistoryFollower, type HistorySettings, openHistory } from './history/open.ts';
import { openShadow, type ShadowFollower, type ShadowSettings } from './shadow/open.ts';
import { openVerify, type VerifyFollower } from './verify/open.ts';

interface ObserverSettings {
  readonly plan: PlanSettings;
  readonly runDir: string;
  readonly shadow?: ShadowSettings | undefined;
  readonly history?: HistorySettings | undefined;
}

export interface Observers {
  readonly shadow: ShadowFollower | undefined;
  readonly history: HistoryFollower | undefined;
  /** undefined with `--shadow`: nothing is programmed. */
  readonly verify: VerifyFollower | undefined;
}

export function openObservers(
  settings: ObserverSettings,
  {
    agent,
    dataplane,
    source,
    addresses,
    closers,
    onShadow,
    log,
  }: {
    readonly agent: Agent;
    readonly dataplane: ComposedDataplane;
    readonly source: Source;
    readonly addresses: NodeAddresses;
    readonly closers: { close(): void }[];
    readonly onShadow: Parameters<typeof openShadow>[1]['onView'];
    readonly log: Logger;
  },
): Observers {
  const { plan, runDir } = settings;
  const shadow =
    settings.shadow &&
    openShadow(settings.shadow, { ...{ agent, plan, runDir, addresses, log }, onView: onShadow });
  const history =
    settings.history && openHistory(settings.history, { agent, node: plan.nodeName, log });
  const verify = shadow ? undefined : openVerify({ agent, dataplane, source, plan, log });
  for (const one of [shadow, history, verify]) if (one !== undefined) closers.push(one);
  return { shadow, history, verify };
}
