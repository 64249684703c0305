// SPDX-License-Identifier: Apache-2.0
// Laws of the comparison, for every state of every story: fairlead's own rules do what its plan says, and the symbolic answer is
// what single packets meet that are traced through the same rules by another program (test/support/iptables).
import { expect, test } from 'vitest';
import { numberOf, rangeOf } from '../../../src/compare/rules/ranges.ts';
import type { ClientClass } from '../../../src/compare/walk/path.ts';
import { familyOf, isLoopback } from '../../../src/lib/ip.ts';
import { FAMILIES } from '../../../src/model/types.ts';
import { clientOf } from '../../../src/plan/explain/client.ts';
import type { Packet } from '../../../src/plan/explain/packet.ts';
import { traced } from '../../support/iptables/agreement.ts';
import { printRuleset } from '../../support/iptables/print-ruleset.ts';
import { questionsOf } from '../../support/iptables/questions.ts';
import { type StoryState, storyRulesets } from '../../support/iptables/story-rulesets.ts';
import { verdictOf } from '../../support/iptables/verdict.ts';
import { comparedWith, sideOf, unexplained } from './recorded.ts';

const STATES = storyRulesets().flatMap(({ story, states }) =>
  states.map((state, index) => ({ name: `${story.name}, step ${index}`, state })),
);

const textIn = ({ rulesets }: StoryState, family: 'IPv4' | 'IPv6'): string =>
  printRuleset(rulesets.find((one) => one.family === family)!);

test('the rules of every state do what its plan says', () => {
  let classes = 0;
  const found = STATES.flatMap(({ name, state }) =>
    FAMILIES.flatMap((family) => {
      const rules = sideOf('iptables', textIn(state, family), state.plan, family);
      const comparison = comparedWith(state.plan, rules, family);
      classes += comparison.classes;
      expect(comparison.unread).toEqual([]);
      return unexplained(comparison).map((text) => `${name}: ${text}`);
    }),
  );
  expect(found).toEqual([]);
  expect(classes).toBeGreaterThan(10_000);
});

test('classes have the answer of each of their packets', () => {
  let asked = 0;
  const wrong: string[] = [];
  for (const { name, state } of STATES) {
    for (const packet of questionsOf(state.plan)) {
      if (isLoopback(packet.destination)) continue;
      asked += 1;
      const text = differenceFor(state, packet);
      if (text !== undefined) wrong.push(`${name}: ${text}`);
    }
  }
  expect(wrong.slice(0, 5)).toEqual([]);
  expect(asked).toBeGreaterThan(5_000);
});

const SIDES = new WeakMap<StoryState, Map<string, ReturnType<typeof sideOf>>>();

function sideFor(state: StoryState, family: 'IPv4' | 'IPv6') {
  const sides = SIDES.get(state) ?? new Map<string, ReturnType<typeof sideOf>>();
  SIDES.set(state, sides);
  const side = sides.get(family) ?? sideOf('iptables', textIn(state, family), state.plan, family);
  sides.set(family, side);
  return side;
}

function differenceFor(state: StoryState, packet: Packet): string | undefined {
  const { plan, rulesets } = state;
  const family = familyOf(packet.source);
  const { paths } = traced({ plan, rulesets }, packet);
  const met = verdictOf(paths);
  const [answer] = sideFor(state, family).answers(
    { address: packet.destination, protocol: packet.protocol, port: packet.destinationPort },
    [classOf(state, packet)],
  );
  const verdict = { 'accept to backend': 'forward', unmatched: 'none' } as const;
  const wanted = {
    verdict: met.verdict in verdict ? verdict[met.verdict as keyof typeof verdict] : met.verdict,
    backends: met.backends.map(({ backend, probability, masquerade }) => [
      backend,
      probability.toFixed(6),
      masquerade === 'yes',
    ]),
  };
  const found = {
    verdict: answer?.verdict,
    backends: answer?.backends.map((one) => [one.text, one.share.toFixed(6), one.masquerade]),
  };
  if (JSON.stringify(found) === JSON.stringify(wanted)) return undefined;
  const { source, destination, destinationPort } = packet;
  return `${source} -> ${destination}:${destinationPort}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`;
}

/** As the interpreter sees the client: by its kind, and with the device that the detector wants. */
function classOf({ plan }: StoryState, packet: Packet): ClientClass {
  const { kind, position } = clientOf(plan, packet);
  const detector = plan.detector[familyOf(packet.source)];
  const uplink = position !== 'pod' || detector === undefined || detector.kind === 'cidr';
  const device = uplink
    ? 'uplink0'
    : detector.kind === 'interface'
      ? detector.name
      : `${detector.prefix}1`;
  const isProcess = kind === 'host process';
  return {
    sources: rangeOf(packet.source)!,
    source: packet.source,
    at: numberOf(packet.source),
    device: isProcess ? undefined : device,
    isOwn: isProcess || plan.node.localAddresses.includes(packet.source),
  };
}
