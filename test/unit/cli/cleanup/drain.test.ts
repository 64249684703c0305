// SPDX-License-Identifier: Apache-2.0
// What `cleanup --drain` ends has been waited for.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { drainAll, wouldDrainAll } from '../../../../src/cli/cleanup/drain.ts';
import type { Predecessor } from '../../../../src/engines/predecessor.ts';

const calls: string[] = [];

beforeEach(() => {
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    calls.push(String(text).trimEnd());
    return true;
  });
});
afterEach(() => {
  calls.length = 0;
  vi.restoreAllMocks();
});

/** @param serves at each look; the last one is found again and again */
function engine(name: string, serves: readonly boolean[], connections = 0): Predecessor {
  let looks = 0;
  let isEnded = false;
  return {
    engine: name,
    look: async () => {
      const isServing = !isEnded && serves[Math.min(looks++, serves.length - 1)] === true;
      return { isServing, isLeft: true, connections };
    },
    held: async () => [],
    stopServing: async () => {
      isEnded = true;
      calls.push(`${name} stops`);
    },
    endUnanswered: async () => void calls.push(`${name} ends flows`),
    remove: async () => undefined,
  };
}
const wait = async (engines: readonly string[]): Promise<void> =>
  void calls.push(`waits for ${engines.join(', ')}`);

test('all engines that serve are waited for, then each is ended', async () => {
  expect(await drainAll([engine('bpf', [true]), engine('iptables', [true])], wait)).toBe(false);
  expect(calls).toEqual([
    'waits for bpf, iptables',
    ...['bpf stops', 'bpf serves no new connections any more', 'bpf ends flows'],
    ...['iptables stops', 'iptables serves no new connections any more', 'iptables ends flows'],
  ]);
});

test('nothing is waited for where nothing serves; connections are counted', async () => {
  expect(await drainAll([engine('bpf', [false], 3)], wait)).toBe(true);
  expect(calls).toEqual([
    'bpf ends flows',
    'kept what bpf needs to translate 3 connections: run this again when they have ended, or without --drain',
  ]);
});

test('an engine that was not seen to serve at first serves on', async () => {
  expect(await drainAll([engine('iptables', [false, true])], wait)).toBe(true);
  expect(calls).toEqual(['iptables serves now: run this again']);
});

test('nothing is ended at the deadline', async () => {
  const late = (): Promise<void> => Promise.reject(new Error('late'));
  await expect(drainAll([engine('bpf', [true])], late)).rejects.toThrow('late');
  expect(calls).toEqual([]);
});

test('a dry run only says what would be ended and what would be kept', async () => {
  const engines = [engine('bpf', [true], 3), engine('iptables', [false], 2)];
  expect(await wouldDrainAll(engines)).toBe(true);
  expect(calls).toEqual([
    'bpf would begin no connections any more, and keep those that it has',
    'would keep what iptables needs to translate 2 connections',
  ]);
  expect(await wouldDrainAll([engine('bpf', [false])])).toBe(false);
});
