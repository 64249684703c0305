// SPDX-License-Identifier: Apache-2.0
// Warns if no Node object has this node's name. NodePort addresses, topology and local endpoints depend on
// the Node object and are missing without it.
import type { Logger } from '../log.ts';
import type { ObjectChange } from '../model/types.ts';
import type { SourceListener } from '../source/source.ts';

const MAX_NAMES = 5;

/** Logs, once the source is synced and whenever it changes, whether the Node `nodeName` exists. */
export function withNodeWarning(
  listener: SourceListener,
  nodeName: string,
  log: Pick<Logger, 'info' | 'warn'>,
): SourceListener {
  const nodes = new Set<string>();
  let isSynced = false;
  let isMissing = false;
  const check = (): void => {
    if (isMissing === !nodes.has(nodeName)) return;
    isMissing = !isMissing;
    if (!isMissing) {
      log.info({ node: nodeName }, 'Node object found');
      return;
    }
    const others = [...nodes].sort().slice(0, MAX_NAMES);
    const advice = 'set --hostname-override to the name of the Node this agent runs on';
    log.warn({ node: nodeName, nodes: others, advice }, 'no Node object with this name');
  };
  return {
    ...listener,
    onChanges: (changes) => {
      for (const change of changes) follow(nodes, change);
      if (isSynced) check();
      listener.onChanges(changes);
    },
    onSynced: () => {
      isSynced = true;
      check();
      listener.onSynced();
    },
  };
}

function follow(nodes: Set<string>, { type, ref }: ObjectChange): void {
  if (ref.kind !== 'Node') return;
  if (type === 'put') nodes.add(ref.name);
  else nodes.delete(ref.name);
}
