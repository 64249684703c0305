// SPDX-License-Identifier: Apache-2.0
// An API server without a Node of this node's name: without it an agent knows no addresses of NodePorts, no zone
// and no local endpoints, and the initial sync waits for it.
import type { Problem } from '../../model/problem.ts';
import type { WatchName } from './kinds.ts';
import { LIMITS } from './limits.ts';

export interface NodeWatch {
  readonly nodeName: string;
  readonly watches: readonly {
    readonly kind: WatchName;
    /** Listed completely. */
    readonly isSynced: boolean;
    readonly objects: number;
  }[];
  /** The initial sync waits no more. */
  readonly isSynced: boolean;
}

/** A warning if Nodes are listed and this node's is not among them; else empty. */
export function missingNode({ nodeName, watches, isSynced }: NodeWatch): readonly Problem[] {
  const nodes = watches.find(({ kind }) => kind === 'Node');
  if (nodes?.isSynced !== true || nodes.objects > 0) return [];
  const seconds = LIMITS.nodeWaitMs / 1000;
  const waiting = `waiting for Node ${nodeName}, at most ${seconds} s`;
  const state = isSynced ? `Node ${nodeName} not found` : waiting;
  const advice = 'register it, or set --hostname-override to the name of the Node of this machine';
  return [
    { reason: `${state}: the API server has no Node of this name; ${advice}`, isWarning: true },
  ];
}
