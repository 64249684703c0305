// SPDX-License-Identifier: Apache-2.0
// What else is on the node, where it breaks the way of the client that `explain` is asked about. Pure.
import type { Finding, Topic } from '../on-node/finding.ts';
import type { ExplainStep } from '../plan/explain/explanation.ts';
import type { Answer } from './answer.ts';

/** What is in the way of sockets of the node's own pods and processes; packets from outside meet all of it. */
const OF_SOCKETS: readonly Topic[] = ['forward', 'marks', 'mesh', 'dns-cache'];

/** The answer with a step for each; the same if nothing is in the way, or nothing of ours is asked about. */
export function withNodeSteps(answer: Answer, findings: readonly Finding[]): Answer {
  if (answer.frontend === null) return answer;
  const client = answer.steps.find(({ rule }) => rule === 'client')?.result ?? '';
  const isOutside = ['outside', 'other node'].includes(client);
  const steps = findings
    .filter(
      ({ breaksServices, topic }) => breaksServices && (isOutside || OF_SOCKETS.includes(topic)),
    )
    .map(
      ({ topic, what, consequence, advice }): ExplainStep => ({
        rule: 'on this node',
        result: topic,
        reason: [`${what}: ${consequence}`, ...(advice === undefined ? [] : [advice])].join('; '),
      }),
    );
  return steps.length === 0 ? answer : { ...answer, steps: [...answer.steps, ...steps] };
}
