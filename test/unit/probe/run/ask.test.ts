// SPDX-License-Identifier: Apache-2.0
// What a probe adds to the error of a start, and to the log of one that iptables serves.
import { describe, expect, test } from 'vitest';
import { FairleadError } from '../../../../src/errors.ts';
import { FEATURE_NAMES, type FeatureName } from '../../../../src/probe/features.ts';
import { reportOf } from '../../../../src/probe/report.ts';
import type { Result } from '../../../../src/probe/results.ts';
import { explained, explainLater } from '../../../../src/probe/run/ask.ts';
import { until } from '../../../support/until.ts';

const reportWith = (answers: Readonly<Partial<Record<FeatureName, Result>>>) => {
  const yes: Result = { answer: 'yes', reason: '' };
  return new Map(FEATURE_NAMES.map((name) => [name, answers[name] ?? yes]));
};
const FILTERED = reportWith({ 'bpf()': { answer: 'no', reason: 'a seccomp filter' } });

const refused = new FairleadError('PROGRAM_REFUSED', 'the kernel refused a program', 'the log');

describe('an error of a start', () => {
  test('that does not name the cause gets the code, the reason and the remedy of the probe', async () => {
    const error = await explained(refused, 'bpf', async (engine) =>
      reportOf(FILTERED, '6.1', engine),
    );
    expect(error).toMatchObject({
      code: 'NO_PRIVILEGE',
      detail: 'the kernel refused a program\nthe log',
    });
    expect(String(error)).toMatch(
      /--engine bpf cannot work on this node: bpf\(\): a seccomp filter; what would change it: allow bpf/,
    );
  });

  test('stays if the probe finds nothing, or has no report', async () => {
    const fine = async () => reportOf(reportWith({}), '6.1', 'bpf');
    expect(await explained(refused, 'bpf', fine)).toBe(refused);
    expect(await explained(refused, 'bpf', async () => undefined)).toBe(refused);
  });

  test('that names the cause is not probed', async () => {
    const known = new FairleadError('NO_CGROUP2', 'no cgroup v2 hierarchy is mounted');
    const never = () => Promise.reject(new Error('probed'));
    expect(await explained(known, 'bpf', never)).toBe(known);
  });
});

test('after a fallback the cause is logged, once the probe has found it', async () => {
  const lines: unknown[] = [];
  const log = { warn: (fields: unknown) => void lines.push(fields) };
  explainLater(log, async () => reportOf(FILTERED, '6.1', 'auto'));
  await until(() => lines.length > 0, 'a line');
  expect(lines).toEqual([expect.objectContaining({ why: ['bpf(): a seccomp filter'] })]);
});
