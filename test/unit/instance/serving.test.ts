// SPDX-License-Identifier: Apache-2.0
import { expect, test, vi } from 'vitest';
import type { AgentListener } from '../../../src/agent/agent.ts';
import { whenServing } from '../../../src/instance/serving.ts';

/** An agent that says what it is told to, and servers whose ports are synced when they are told to. */
function stage() {
  const listeners: AgentListener[] = [];
  const portsSynced: (() => void)[] = [];
  let served = 0;
  const watch = whenServing({
    agent: { listen: (listener) => void listeners.push(listener) },
    servers: { portsSynced: () => new Promise((resolve) => portsSynced.push(resolve)) },
    onServing: () => {
      served += 1;
    },
    longestWaitMs: 1_000,
  });
  const synced = (isFull: boolean, isComplete: boolean): void => {
    for (const { onSync } of listeners) onSync?.({ isFull, isComplete } as never);
  };
  return { synced, portsSynced, watch, served: () => served };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('after the initial sync, when the health check ports are open, once', async () => {
  const { synced, portsSynced, served } = stage();
  synced(false, true);
  expect(portsSynced).toHaveLength(0);
  synced(true, true);
  await turn();
  expect(served()).toBe(0);
  portsSynced[0]?.();
  await turn();
  expect(served()).toBe(1);
  synced(true, true);
  await turn();
  expect(served()).toBe(1);
});

test('a Service that cannot be programmed delays it, but not for ever', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const { synced, portsSynced, served } = stage();
    synced(true, false);
    vi.advanceTimersByTime(900);
    synced(false, false);
    expect([served(), portsSynced.length]).toEqual([0, 0]);
    vi.advanceTimersByTime(200);
    expect(served()).toBe(1);
  } finally {
    vi.useRealTimers();
  }
});

test('one that is programmed later ends the delay', async () => {
  const { synced, portsSynced, served } = stage();
  synced(true, false);
  synced(false, true);
  portsSynced[0]?.();
  await turn();
  expect(served()).toBe(1);
});

test('not after it was closed', async () => {
  const { synced, portsSynced, watch, served } = stage();
  synced(true, true);
  watch.close();
  portsSynced[0]?.();
  await turn();
  expect(served()).toBe(0);
});
