// SPDX-License-Identifier: Apache-2.0
// A plan as JSON and back is the same plan, and what is no capture is refused with a reason.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from 'vitest';
import { plainOf, revived } from '../../../src/capture/plain.ts';
import { askOf } from '../../../src/cli/capture/answers.ts';
import { readCapture } from '../../../src/cli/capture/file.ts';
import { explain } from '../../../src/plan/explain/explain.ts';
import { parsePacket } from '../../../src/plan/explain/packet.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { storyRulesets } from '../../support/iptables/story-rulesets.ts';

const plans: readonly Plan[] = storyRulesets().map(({ states }) => states.at(-1)!.plan);

test('the plan of each story survives JSON: as a value, and in what it explains', () => {
  expect(plans.length).toBeGreaterThan(50);
  for (const plan of plans) {
    const text = JSON.stringify(plainOf(plan));
    const read = revived(JSON.parse(text)) as Plan;
    expect(JSON.stringify(plainOf(read))).toBe(text);
    expect([...read.services.keys()]).toEqual([...plan.services.keys()]);
    for (const { ports } of plan.services.values()) {
      for (const { frontends, protocol } of ports) {
        for (const { address, port } of frontends) {
          if (address === undefined) continue;
          const to = address.includes(':') ? `[${address}]` : address;
          const from = address.includes(':') ? '2001:db8::9' : '192.0.2.9';
          const parsed = parsePacket(from, `${to}:${port}/${protocol.toLowerCase()}`);
          if (!parsed.ok) throw new Error(parsed.reason);
          expect(explain(read, parsed.packet)).toEqual(explain(plan, parsed.packet));
        }
      }
    }
  }
});

describe('a file that is no capture', () => {
  const folder = mkdtempSync(join(tmpdir(), 'capture-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const fileOf = (content: string | Buffer): string => {
    const path = join(folder, 'x.capture');
    writeFileSync(path, content);
    return path;
  };
  const whole = {
    ...{ kind: 'Capture', format: 1, version: '0.1.0', settings: {} },
    ...{ rules: [], network: [], addresses: [], unread: [] },
  };
  const packed = (value: unknown): Buffer => gzipSync(JSON.stringify(value));

  test.each([
    ['text', 'hello', /it is no file of `fairlead capture`, or was cut off/],
    ['cut off', packed(whole).subarray(0, 40), /was cut off/],
    ['another document', packed({ kind: 'List' }), /it is no file of `fairlead capture`$/],
    ['another format', packed({ ...whole, format: 9 }), /format 9, of fairlead 0\.1\.0/],
    ['without rules', packed({ ...whole, rules: null }), /it lacks rules/],
  ])('%s is refused', (_, content, reason) => {
    const read = () => readCapture(fileOf(content));
    expect(read).toThrow(expect.objectContaining({ code: 'BAD_OPTION' }));
    expect(read).toThrow(reason);
  });

  test('one that lacks a part says why, one that was changed says so', async () => {
    const unread = [{ what: 'status', reason: 'the agent did not answer' }];
    const lacking = askOf({ runDir: '', capture: fileOf(packed({ ...whole, unread })) });
    await expect(lacking('/v1/status')).rejects.toThrow(
      'the capture has no status: the agent did not answer',
    );
    await expect(lacking('/v1/explain?from=1.2.3.4&to=1.2.3.5:80')).rejects.toThrow('has no plan');
    const changed = askOf({
      ...{ runDir: '' },
      capture: fileOf(packed({ ...whole, plan: { services: 5 }, programmed: 7 })),
    });
    await expect(changed('/v1/services')).rejects.toThrow(/cannot be used: it was changed/);
  });
});
