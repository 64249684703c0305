// SPDX-License-Identifier: Apache-2.0
// Events about the Node: what else is on it and breaks Services.
import type { Finding } from '../../on-node/finding.ts';
import type { EventRecorder } from './recorder.ts';

/** One Event for all that is new. @returns a function to be called with it */
export const createNodeConflicts =
  (record: EventRecorder['record'], nodeName: string): ((fresh: readonly Finding[]) => void) =>
  (fresh) => {
    const each = fresh.map(({ what, consequence, advice }) =>
      [`${what}: ${consequence}`, ...(advice === undefined ? [] : [advice])].join('; '),
    );
    record('NodeConflict', { kind: 'Node', name: nodeName }, each.join('. '));
  };
