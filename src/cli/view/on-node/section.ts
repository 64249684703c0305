// SPDX-License-Identifier: Apache-2.0
// The section "On this node" of `fairlead status` and `fairlead probe`.
import type { Finding } from '../../../on-node/finding.ts';

/** A line for each finding, what breaks Services first; none if nothing was found. */
export function onNodeLines(findings: readonly Finding[]): readonly string[] {
  if (findings.length === 0) return [];
  const breaking = findings.filter(({ breaksServices }) => breaksServices);
  const others = findings.filter(({ breaksServices }) => !breaksServices);
  return ['', 'On this node:', ...[...breaking, ...others].map(lineOf)];
}

/** `  marks: ip rule 100: … -> it uses the bit 0x4000 …; to do: …`. */
function lineOf({ topic, what, consequence, advice, breaksServices }: Finding): string {
  const todo = advice === undefined ? '' : `; to do: ${advice}`;
  return `  ${breaksServices ? 'BREAKS SERVICES ' : ''}${topic}: ${what} -> ${consequence}${todo}`;
}
