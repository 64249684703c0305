// SPDX-License-Identifier: Apache-2.0
// The routes of the admin socket. The programmed state is read from the kernel for each response.

import type { Agent } from '../agent/agent.ts';
import type { ComposedDataplane } from '../engines/dataplane.ts';
import type { Problem } from '../model/problem.ts';
import { backendRowsInSteps } from '../observe/backend-rows.ts';
import { explained } from '../observe/explained.ts';
import { serviceRowsInSteps } from '../observe/service-rows.ts';
import { withShadow } from '../observe/shadow-view.ts';
import { statusOf } from '../observe/status.ts';
import type { Routes } from '../server/admin-socket.ts';
import type { Source } from '../source/source.ts';
import { inSlices } from '../sys/clock.ts';
import type { NodeAddresses } from '../sys/netlink/node-addresses.ts';
import { packageVersion } from '../sys/package.ts';
import { capturedInSteps } from './capture.ts';
import type { OnNode } from './on-node/looking.ts';
import type { ShadowFollower } from './shadow/open.ts';
import type { VerifyFollower } from './verify/open.ts';

/** Work between two turns of the event loop. */
const SLICE_MS = 10;

export interface Running {
  readonly node: string;
  readonly startedAt: Date;
  readonly dataplane: ComposedDataplane;
  readonly agent: Agent;
  readonly source: Source;
  /** As they are now. */
  readonly warnings?: () => readonly Problem[];
  readonly addresses: NodeAddresses;
  readonly onNode?: OnNode;
  readonly verify?: Pick<VerifyFollower, 'now'> | undefined;
  readonly shadow?: Pick<ShadowFollower, 'view'> | undefined;
}

/** Served until the agent has started. */
export const STARTING_ROUTES: Routes = {
  '/v1/audit': () => ({}),
  '/v1/verify': () => ({}),
  '/v1/explain': () => ({}),
  '/v1/status': () => ({ pid: process.pid, isReady: false }),
  '/v1/services': () => [],
  '/v1/backends': () => [],
  '/v1/capture': () => [],
};

export function routesOf(running: Running): Routes {
  const { dataplane, agent, source, node, startedAt } = running;
  const version = packageVersion();
  return {
    '/v1/status': () =>
      statusOf({
        ...{ version, node, startedAt, dataplane, source, state: agent.state() },
        ...(running.onNode && { findings: running.onNode.findings(true) }),
        ...(running.shadow && { shadow: running.shadow.view() }),
        warnings: running.warnings?.() ?? [],
      }),
    '/v1/audit': async () => (agent.state().isReady ? { drift: await agent.audit() } : {}),
    '/v1/verify': async () => (await running.verify?.now()) ?? {},
    '/v1/explain': async (query) => {
      const held = await dataplane.held();
      return explained(
        agent.state().plan,
        running.addresses.current().map(({ address }) => address),
        { dataplanes: dataplane.dataplanes, held },
        query,
        running.onNode?.findings(),
      );
    },
    '/v1/services': async () => {
      const { frontends } = await dataplane.snapshot();
      const { plan } = agent.state();
      const steps = serviceRowsInSteps(plan, frontends, dataplane.dataplanes);
      return withShadow((await inSlices(steps, SLICE_MS)) ?? [], running.shadow?.view());
    },
    '/v1/backends': async () => {
      const { backends } = await dataplane.snapshot();
      return inSlices(backendRowsInSteps(agent.state().plan, backends), SLICE_MS);
    },
    '/v1/capture': async () => {
      const programmed = await dataplane.snapshot();
      const steps = capturedInSteps(agent.state().plan, programmed, {
        dataplanes: dataplane.dataplanes,
        addresses: running.addresses.current().map(({ address }) => address),
        findings: running.onNode?.findings() ?? [],
      });
      return inSlices(steps, SLICE_MS);
    },
  };
}
