// SPDX-License-Identifier: Apache-2.0
// The process that tries may end or hang at any feature: only that one could not be told.
import { describe, expect, test } from 'vitest';
import { FEATURE_NAMES } from '../../../../src/probe/features.ts';
import { lineText } from '../../../../src/probe/results.ts';
import type { InsideParts } from '../../../../src/probe/run/inside.ts';
import { probeAll } from '../../../../src/probe/run/outside.ts';
import type { Child } from '../../../../src/sys/exec.ts';

const PREPARED = { network: undefined, mounts: undefined, cgroup: { problem: 'none' } };

/** Answers yes to all, but ends or hangs at some. */
function starting(ends: Readonly<Record<string, number | 'hangs'>>) {
  const started: InsideParts[] = [];
  const startInside = (parts: InsideParts, onLine: (line: string) => void): Child => {
    started.push(parts);
    let kill = (): void => undefined;
    const killed = new Promise<number>((resolve) => {
      kill = () => resolve(137);
    });
    const work = async (): Promise<number> => {
      await Promise.resolve();
      if (ends['start'] !== undefined) return Number(ends['start']);
      onLine('(node:1) Warning: not a line of ours');
      for (const feature of parts.features) {
        onLine(lineText({ begin: feature }));
        const end = ends[feature];
        if (end === 'hangs') return killed;
        if (end !== undefined) return end;
        onLine(lineText({ feature, answer: 'yes', reason: '' }));
      }
      return 0;
    };
    return {
      ...{ pid: 1, exited: work(), hasExited: () => false, writeLine: () => true },
      kill: () => kill(),
    };
  };
  return { started, startInside };
}

const doubtsOf = async (ends: Readonly<Record<string, number | 'hangs'>>) => {
  const { started, startInside } = starting(ends);
  const results = await probeAll(PREPARED, {
    ...{ timeoutMs: 20, startInside, features: FEATURE_NAMES },
  });
  const doubts = [...results].filter(([, { answer }]) => answer !== 'yes');
  return { starts: started.length, count: results.size, doubts };
};

describe('a probe', () => {
  test('without accidents is one process', async () => {
    expect(await doubtsOf({})).toEqual({ starts: 1, count: FEATURE_NAMES.length, doubts: [] });
  });

  test('goes on behind an attempt that ends the process, and behind one that hangs', async () => {
    const { starts, doubts } = await doubtsOf({ BTF: 139, tcx: 'hangs', route_localnet: 134 });
    expect(starts).toBe(3);
    expect(doubts.map(([name, { answer, reason }]) => `${name}: ${answer}: ${reason}`)).toEqual([
      'BTF: could not tell: the attempt ended with 139',
      'tcx: could not tell: the attempt took more than 0.02 s',
      'route_localnet: could not tell: the attempt ended with 134',
    ]);
  });

  test('of a process that does not start could not tell anything', async () => {
    const { starts, doubts } = await doubtsOf({ start: 5 });
    expect(starts).toBe(1);
    expect(doubts).toHaveLength(FEATURE_NAMES.length);
    expect(doubts[0]?.[1]).toEqual({
      answer: 'could not tell',
      reason: 'the attempt ended with 5',
    });
  });
});
