// SPDX-License-Identifier: Apache-2.0
// What `compare` reads on a node, from a capture.
import { type Capture, type Printed, planIn } from '../../capture/format.ts';
import { FairleadError } from '../../errors.ts';
import { type FoundRules, rulesIn, type SavedRules } from '../../instance/shadow/read-rules.ts';
import { FAMILIES, type Family, type ObjectChange } from '../../model/types.ts';
import type { Plan } from '../../plan/types.ts';
import { NFT_LIST } from '../capture/node-parts.ts';

const TOOLS: Readonly<Record<Family, string>> = { IPv4: 'iptables', IPv6: 'ip6tables' };

/** Throws NOT_FOUND if none were read, BAD_OPTION if they cannot be read. */
export function rulesInCapture({ rules, unread }: Capture): readonly FoundRules[] {
  const saved = Object.fromEntries(
    FAMILIES.map((family) => [family, savedOf(rules, family)]),
  ) as SavedRules['saved'];
  const listed = rules.find(({ command }) => command === NFT_LIST)?.text ?? '';
  if (rules.length > 0) return rulesIn({ listed, saved }, FAMILIES);
  const why = unread.find(({ what }) => what === NFT_LIST)?.reason ?? 'none were read';
  throw new FairleadError('NOT_FOUND', `the capture has no rules: ${why}`);
}

const savedOf = (rules: readonly Printed[], family: Family): SavedRules['saved'][Family] =>
  (['nft', 'legacy'] as const).flatMap((variant) =>
    rules
      .filter(({ command }) => command === `${TOOLS[family]}-${variant}-save`)
      .map(({ text }) => [variant, text] as const),
  );

/** undefined: they were not read, and the agent's plan is there alone. */
export const changesIn = ({ objects }: Capture): readonly ObjectChange[] | undefined =>
  objects?.map((one) => ({ type: 'put', ...one }) as const);

/** Throws NOT_FOUND. */
export function capturedPlan(capture: Capture): Plan {
  const plan = planIn(capture);
  if (plan !== undefined) return plan;
  const why = capture.unread.find(({ what }) => what === 'objects')?.reason ?? 'none was read';
  throw new FairleadError('NOT_FOUND', `the capture has no plan: ${why}`);
}
