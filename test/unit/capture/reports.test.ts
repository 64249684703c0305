// SPDX-License-Identifier: Apache-2.0
// Each file of test/reports is a node that somebody has reported: what commands say of it, from today's plan of its objects.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { captureIn } from '../../../src/capture/format.ts';
import { plainOf } from '../../../src/capture/plain.ts';
import { askOf } from '../../../src/cli/capture/answers.ts';
import { readCapture } from '../../../src/cli/capture/file.ts';
import { compareCommand } from '../../../src/cli/compare/command.ts';
import type { Answer } from '../../../src/observe/answer.ts';
import type { ServiceRow } from '../../../src/observe/service-rows.ts';
import { canonical, planFrom } from './captures.ts';

const FOLDER = join(import.meta.dirname, '..', '..', 'reports');
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith('.capture'));
/** Small enough for a repository: whoever adds one with more leaves out what does not matter. */
const MOST_BYTES = 200 * 1024;

interface Expected {
  /** `default/name-07 10.96.0.10:80/TCP verdict`, between rules and plan. */
  readonly differs?: readonly string[];
  /** States of frontends other than `ok`. */
  readonly states?: Readonly<Record<string, string>>;
}
const EXPECTED: Readonly<Record<string, Expected>> = JSON.parse(
  readFileSync(join(FOLDER, 'expected.json'), 'utf8'),
);

afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

test('there are files, and nothing is expected of others', () => {
  expect(FILES.length).toBeGreaterThanOrEqual(3);
  expect(Object.keys(EXPECTED).filter((name) => !FILES.includes(name))).toEqual([]);
});

describe.each(FILES)('%s', (name) => {
  const path = join(FOLDER, name);
  const capture = readCapture(path);
  const { differs = [], states = {} } = EXPECTED[name] ?? {};
  const ask = askOf({ runDir: '', capture: path });

  test('is redacted, and small', () => {
    expect(captureIn(capture)).toMatchObject({ ok: true });
    expect(capture.isRedacted).toBe(true);
    expect(statSync(path).size).toBeLessThan(MOST_BYTES);
  });

  test('the plan of its objects is the plan that it has', () => {
    const plan = planFrom(capture.settings.plan, capture.objects);
    const again = JSON.parse(JSON.stringify(plainOf(plan)));
    expect(canonical(again)).toEqual(canonical(capture.plan));
  });

  test('each frontend is what it was, and explained', async () => {
    const rows = (await ask('/v1/services')) as readonly ServiceRow[];
    expect(rows.length).toBeGreaterThan(0);
    const others = rows.filter(({ kernelState }) => kernelState !== 'ok');
    expect(
      Object.fromEntries(others.map((row) => [`${row.family} ${row.frontend}`, row.kernelState])),
    ).toEqual(states);
    for (const { frontend, family, namespace, name: service, desired } of rows) {
      if (frontend.startsWith('*')) continue;
      const from =
        family === 'IPv4' ? capture.addresses.find((one) => one.startsWith('127.')) : '::1';
      const query = new URLSearchParams({ from: from ?? '127.0.0.1', to: frontend });
      const answer = (await ask(`/v1/explain?${query}`)) as Answer;
      expect(answer).toMatchObject({ frontend, service: `${namespace}/${service}` });
      if (answer.verdict === 'forward')
        expect([...answer.backends].sort()).toEqual([...desired].sort());
    }
  });

  test.skipIf(
    !capture.rules.some(({ text }) =>
      /KUBE-SERVICES|table ip6? (?:kube-proxy|fairlead) /.test(text),
    ),
  )('its rules and its plan differ in what is expected alone', async () => {
    let printed = '';
    vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
      printed += String(text);
      return true;
    });
    const args = ['--capture', path, '-o', 'json'];
    await compareCommand().parseAsync(args, { from: 'user' });
    vi.restoreAllMocks();
    const { comparisons } = JSON.parse(printed) as {
      comparisons: readonly {
        differences: readonly { service: string; frontend: string; part: string; reason: string }[];
        destinations: number;
      }[];
    };
    expect(comparisons.every(({ destinations }) => destinations > 1)).toBe(true);
    const open = comparisons.flatMap(({ differences }) =>
      differences.filter(({ reason }) => reason === null || reason === 'foreign-rule'),
    );
    const texts = open.map(({ service, frontend, part }) => `${service} ${frontend} ${part}`);
    expect([...new Set(texts)].sort()).toEqual([...differs].sort());
  });
});
