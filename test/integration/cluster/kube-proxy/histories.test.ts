// SPDX-License-Identifier: Apache-2.0
// Random Services, one after the other, on the real kube-proxy in mode nftables and on the engine nftables: `fairlead compare`
// proves of both tables that they do the same with every packet, but for the differences of src/compare/known.ts.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compare } from '../../../../src/compare/compare.ts';
import { reasonsOf } from '../../../../src/compare/known.ts';
import { isUnexplained } from '../../../../src/compare/proof.ts';
import { planSide } from '../../../../src/compare/sides/plan-side.ts';
import { familyOf } from '../../../../src/lib/ip.ts';
import { FAMILIES, type Family, type ObjectChange } from '../../../../src/model/types.ts';
import { createPlanner } from '../../../../src/plan/planner.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import type { Story } from '../../../conformance/story.ts';
import { driven } from '../../../conformance/subjects/program-tables.ts';
import { drawn, storyOf } from '../../../support/fixture/histories.ts';
import type { Stage } from '../../../support/fixture/stage.ts';
import { useStage } from '../../../support/fixture/tests.ts';
import { engineSide } from '../../../support/nftables/engine-side.ts';
import { type MemoryNftables, memoryNftables } from '../../../support/nftables/memory/dataplane.ts';
import { atNight, repeatable, some } from '../../../support/random.ts';
import { sideOf, textsOf } from '../../../unit/compare/recorded.ts';
import { isMissing, oracle } from '../../oracle/oracle.ts';
import {
  rulesOf,
  type WrittenRules,
  withAddresses,
  withoutSentinel,
} from '../../oracle/written.ts';

const STATES = Number(process.env['FAIRLEAD_HISTORIES'] ?? atNight(20, 200));
const STATE_MS = 30_000;

/** What a Service may have besides, which has no part in how its policies work. */
const more = fc.record({
  affinity: some(undefined, undefined, 60, 10_800),
  protocol: some('TCP', 'TCP', 'UDP', 'SCTP'),
});
type More = typeof more extends fc.Arbitrary<infer Value> ? Value : never;

type Json = Readonly<Record<string, unknown>>;

function changed(change: ObjectChange, { affinity, protocol }: More): ObjectChange {
  const { kind } = change.ref;
  if (change.type !== 'put' || (kind !== 'Service' && kind !== 'EndpointSlice')) return change;
  const object = change.object as Json;
  const at = (kind === 'Service' ? object['spec'] : object) as Json;
  const ports = (at['ports'] as readonly Json[]).map((port) => ({ ...port, protocol }));
  if (kind === 'EndpointSlice') return { ...change, object: { ...object, ports } };
  const kept = affinity && {
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds: affinity } },
  };
  return { ...change, object: { ...object, spec: { ...at, ports, ...kept } } };
}

/** Of known differences: how often each was met. */
const met = new Map<string, number>();
let classes = 0;

interface Played {
  readonly stage: Stage;
  readonly engine: MemoryNftables;
  readonly sync: (plan: Plan) => Promise<void>;
}

async function differences(played: Played, { settings, steps }: Story): Promise<readonly string[]> {
  const { stage, sync } = played;
  const objects = steps.flatMap(({ changes }) => changes);
  await stage.reset(objects, settings);
  const plan = createPlanner(settings).apply(objects);
  await sync(plan);
  const found: string[] = [];
  for (const family of FAMILIES) {
    const written = await rulesOf(stage, settings.nodeName, 'nftables', family);
    found.push(...differencesIn(played.engine, plan, written, family));
  }
  return found;
}

function differencesIn(
  engine: MemoryNftables,
  given: Plan,
  { rules, own: all }: WrittenRules,
  family: Family,
): readonly string[] {
  const plan = withAddresses(given, all);
  const node = { own: all.filter((address) => familyOf(address) === family) };
  const said = planSide(plan, family, node);
  const table = sideOf('nftables', engine[family].text(), plan, family);
  const sides = [engineSide(table, said), sideOf('nftables', rules, plan, family)] as const;
  const reasonOf = reasonsOf({ sides, node, plain: undefined });
  const compared = compare({ family, node, sides }, { reasonOf, isKept: () => true });
  expect(compared.unread).toEqual([]);
  expect(compared.classes).toBeGreaterThan(10);
  classes += compared.classes;
  for (const [reason, count] of compared.reasons) met.set(reason, (met.get(reason) ?? 0) + count);
  return withoutSentinel(textsOf(compared.differences.filter(isUnexplained)));
}

describe.skipIf(isMissing)('kube-proxy in mode nftables and the engine nftables', () => {
  const stage = useStage({ network: 'routed', mode: 'nftables', start: oracle('nftables') });

  test(`${STATES} random Services`, { timeout: STATES * STATE_MS }, async () => {
    const engine = memoryNftables();
    const { sync, close } = driven(engine.dataplane);
    const areSame = fc.asyncProperty(drawn, more, async (state, besides) => {
      const story = storyOf(state);
      const steps = story.steps.map((step) => ({
        ...step,
        changes: step.changes.map((change) => changed(change, besides)),
      }));
      const found = await differences({ stage: stage(), engine, sync }, { ...story, steps });
      expect(found).toEqual([]);
    });
    await fc.assert(areSame, repeatable(STATES));
    await close();
    const reasons = [...met].map(([reason, count]) => `${count} ${reason}`).sort();
    process.stdout.write(
      `${STATES} states, ${classes} classes of packets: ${reasons.join(', ')}\n`,
    );
  });
});
