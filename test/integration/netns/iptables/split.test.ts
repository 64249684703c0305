// SPDX-License-Identifier: Apache-2.0
// Both kinds of iptables take a large change in several transactions of one iptables-restore, and hold afterwards what one
// transaction would have made: many Services that come, change and go.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { RESTORE_ARGUMENTS } from '../../../../src/engines/iptables/kernel/tools.ts';
import { createRenderer } from '../../../../src/engines/iptables/rows/render.ts';
import {
  applyDiffs,
  type MutableTables,
} from '../../../../src/engines/iptables/state/diff/apply.ts';
import { diffTables } from '../../../../src/engines/iptables/state/diff/diff.ts';
import { restoreInput } from '../../../../src/engines/iptables/state/diff/restore-input.ts';
import { heldTables } from '../../../../src/engines/iptables/state/diff/text.ts';
import { rulesetPrinter } from '../../../../src/engines/iptables/state/wanted.ts';
import { run } from '../../../../src/sys/exec.ts';
import { isAvailable, VARIANTS } from '../../../support/iptables/read-back.ts';
import { DEFAULTS } from '../../../support/iptables/story-rulesets.ts';
import { createPlanner } from '../../../support/plan/planner.ts';
import { ready, SETTINGS, service, slice } from '../../../unit/plan/support.ts';

const SERVICES = 60;
const CHAINS_AT_ONCE = 40;
const available = await Promise.all(VARIANTS.map(isAvailable));

/** The number of Services, and the last part of their endpoints' addresses. */
const STATES: readonly (readonly [services: number, endpoints: readonly number[]])[] = [
  [SERVICES, [1, 2, 3]],
  [SERVICES, [2, 3, 4]],
  [5, [2, 3, 4]],
];

function steps(): readonly { readonly input: string; readonly held: MutableTables }[] {
  const held: MutableTables = new Map();
  const print = rulesetPrinter('IPv4');
  return STATES.map(([services, endpoints]) => {
    const planner = createPlanner(SETTINGS);
    for (let at = 0; at < services; at += 1) {
      const clusterIP = `10.96.0.${at}`;
      const backends = endpoints.map((last) => ready(`10.1.${at}.${last}`, 'n1'));
      planner.apply([
        service(`web-${at}`, 0, { clusterIP, clusterIPs: [clusterIP] }),
        slice(`web-${at}`, backends),
      ]);
    }
    const rulesets = createRenderer(DEFAULTS).render(planner.current());
    const diffs = diffTables(held, print(rulesets.find(({ family }) => family === 'IPv4')!));
    const input = restoreInput(diffs, CHAINS_AT_ONCE);
    applyDiffs(held, diffs);
    return { input, held: new Map([...held].map(([name, chains]) => [name, new Map(chains)])) };
  });
}

/** Without the built-in chains, which are there anyway if their table is. */
const ours = (tables: ReturnType<typeof heldTables>) =>
  Object.fromEntries(
    [...tables].map(([name, chains]) => [
      name,
      Object.fromEntries([...chains].filter(([chain]) => chain.startsWith('KUBE-')).toSorted()),
    ]),
  );

test.each(VARIANTS.filter((_, index) => available[index]))('iptables-%s', async (variant) => {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-split-'));
  try {
    const all = steps();
    for (const [at, { input }] of all.entries()) {
      expect(input.match(/^COMMIT$/gm)?.length, `step ${at}`).toBeGreaterThan(4);
      writeFileSync(join(folder, `${at}.in`), input);
    }
    const tool = `iptables-${variant}`;
    const script = `export XTABLES_LOCKFILE=${folder}/lock; cd ${folder} && for i in ${[...all.keys()].join(' ')}; do
  ${tool}-restore ${RESTORE_ARGUMENTS.join(' ')} <$i.in && ${tool}-save >$i.out || exit 1; done`;
    const { code, stderr } = await run('unshare', ['--net', 'sh', '-c', script]);
    expect(code, stderr).toBe(0);
    for (const [at, { held }] of all.entries()) {
      const saved = heldTables(readFileSync(join(folder, `${at}.out`), 'utf8'));
      expect(ours(saved), `step ${at}`).toEqual(ours(held));
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
