// SPDX-License-Identifier: Apache-2.0
// A source may be started while the dataplane is still being opened: the kernel's verifier and the API server
// then work at the same time. What the source delivers meanwhile is passed on afterwards, in order.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SourceListener } from '../source/source.ts';

export interface EarlyListener {
  readonly listener: SourceListener;
  /** The source has delivered complete lists. */
  readonly synced: Promise<void>;
  /** From now on `target` is told, first what was delivered so far: one call in each turn of the event loop. */
  passTo(target: SourceListener): Promise<void>;
}

export function createEarlyListener(): EarlyListener {
  const waiting: ((to: SourceListener) => void)[] = [];
  let target: SourceListener | undefined;
  let isSynced: () => void = () => undefined;
  const synced = new Promise<void>((resolve) => {
    isSynced = resolve;
  });
  const tell = (call: (to: SourceListener) => void): void => {
    if (target === undefined) waiting.push(call);
    else call(target);
  };
  return {
    synced,
    listener: {
      onChanges: (changes) => tell((to) => to.onChanges(changes)),
      onSynced: () => {
        tell((to) => to.onSynced());
        isSynced();
      },
      onNodes: () => tell((to) => to.onNodes?.()),
      onProblems: (problems) => tell((to) => to.onProblems(problems)),
      onRequest: (request) => tell((to) => to.onRequest?.(request)),
    },
    async passTo(to) {
      for (let call = waiting.shift(); call !== undefined; call = waiting.shift()) {
        call(to);
        if (waiting.length > 0) await nextTurn();
      }
      target = to;
    },
  };
}
