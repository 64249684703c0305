// SPDX-License-Identifier: Apache-2.0
// The columns of a frontend that come from the views of its dataplanes alone: counters, and where it is reached.
import type { FrontendView } from '../engines/snapshot.ts';

export function viewColumns(views: readonly FrontendView[]) {
  const sum = (count: (view: FrontendView) => number | undefined): number | undefined => {
    const counts = views.map(count).filter((one) => one !== undefined);
    return counts.length === 0 ? undefined : counts.reduce((total, one) => total + one, 0);
  };
  return {
    connections: sum(({ connections }) => connections),
    refused: sum(({ refused }) => refused),
    dropped: sum(({ dropped }) => dropped),
    affinityHits: sum(({ affinityHits }) => affinityHits),
    ...trafficOf(views),
    ...placeOf(views),
  };
}

/** Of the dataplane that counts packets. */
function trafficOf(views: readonly FrontendView[]): Pick<FrontendView, 'toBackend' | 'toClient'> {
  const counting = views.find(({ toBackend }) => toBackend !== undefined);
  if (counting?.toBackend === undefined || counting.toClient === undefined) return {};
  return { toBackend: counting.toBackend, toClient: counting.toClient };
}

/** Of the dataplane that has it elsewhere than at its own address. */
function placeOf(views: readonly FrontendView[]): Pick<FrontendView, 'reachedAt'> {
  const reachedAt = views.find((view) => view.reachedAt !== undefined)?.reachedAt;
  return reachedAt === undefined ? {} : { reachedAt };
}
