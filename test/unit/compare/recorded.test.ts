// SPDX-License-Identifier: Apache-2.0
// kube-proxy's own rules do what the plan says; and every rule of them that is taken away or changed is found.
import { describe, expect, test } from 'vitest';
import { answerText } from '../../../src/compare/answer.ts';
import type { Difference } from '../../../src/compare/compare.ts';
import { comparedWith, planOf, recordedText, sideOf, unexplained } from './recorded.ts';

const CASES = (['ranges', 'affinity'] as const).flatMap((name) =>
  (['iptables', 'nftables'] as const).map((mode) => ({ name, mode })),
);

/** What another rule does as well, or what no packet of a Service meets. */
const IDLE = [
  // Packets that are not the first of a connection.
  /INVALID|RELATED,ESTABLISHED/,
  // The policy of the node's own chains.
  /KUBE-FORWARD|^:|^-A INPUT .*KUBE-NODEPORTS/,
  // Without an endpoint there would be something to refuse; no NodePort is at a loopback address.
  /KUBE-EXTERNAL-SERVICES|-A (FORWARD|OUTPUT) .*KUBE-SERVICES|no-endpoint|localhost_nps/,
  // A rule that only tells.
  /will be dropped by/,
  // The kernel drops such packets before.
  /KUBE-FIREWALL/,
  // The address of the balancer is no address of the node.
  /-A INPUT .*KUBE-PROXY-FIREWALL/,
  // Of the mark that is left nothing else depends.
  /KUBE-POSTROUTING -j MARK/,
  // Of nobody in this story.
  /^reject$|jump (service|nodeport)-endpoints-check/,
];

/** That Service has no NodePort and no source ranges. */
const IDLE_IN = { ranges: /$^/, affinity: /firewall|nodeport/i };

describe.each(CASES)('$name, $mode', ({ name, mode }) => {
  const plan = planOf(name);
  const text = recordedText(name, mode);

  test('no difference without a known reason', () => {
    const comparison = comparedWith(plan, sideOf(mode, text, plan));
    expect(comparison.unread).toEqual([]);
    expect(unexplained(comparison)).toEqual([]);
    expect(comparison.classes).toBeGreaterThan(50);
  });

  const found = (changed: string): readonly string[] =>
    comparedWith(plan, sideOf(mode, changed, plan)).differences.map(textOf);
  let known: readonly string[] | undefined;
  const before = (): readonly string[] => (known ??= found(text));

  const lines = text.split('\n');
  const rules = lines
    .map((line, index) => ({ line: line.trim(), index }))
    .filter(
      ({ line }) => isRule(line) && ![...IDLE, IDLE_IN[name]].some((idle) => idle.test(line)),
    );

  test.each(rules)('is found if it is missing: $line', ({ index }) => {
    const without = lines.toSpliced(index, 1).join('\n');
    expect(found(without)).not.toEqual(before());
  });

  const numbers = rules.filter(({ line }) => CHANGED.test(line));
  test.each(numbers)(
    'is found if its address, port or share is another: $line',
    ({ index, line }) => {
      const changed = lines.with(index, line.replace(CHANGED, changedText)).join('\n');
      expect(unexplained(comparedWith(plan, sideOf(mode, changed, plan)))).not.toEqual([]);
    },
  );
});

const textOf = ({ destination, clients, part, answers }: Difference): string =>
  JSON.stringify([destination, clients.map(({ source }) => source), part, answers.map(answerText)]);

const isRule = (line: string): boolean =>
  line.startsWith('-A ') ||
  /^(ip|meta|fib|ct|numgen|update|jump|goto|drop|reject|masquerade)\b/.test(line);

/** The last port of a DNAT, a share, or the last part of an address. */
const CHANGED =
  /(?<=destination [\d.]+:|dnat to [\d.]+:|probability 0\.|10\.96\.0\.)\d+(?!\d*\/16)/;
const changedText = (digits: string): string =>
  digits.length > 5 ? `4${digits.slice(1)}` : String(Number(digits) + 1);
