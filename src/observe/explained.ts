// SPDX-License-Identifier: Apache-2.0
// The agent's answer to `fairlead explain`. The lookup table that it needs may have 131,071 entries: it is made in slices
// between which the event loop runs.

import type { Finding, Topic } from '../on-node/finding.ts';
import type { ExplainStep } from '../plan/explain/explanation.ts';
import type { TableOf } from '../plan/explain/lookup.ts';
import { parsePacket } from '../plan/explain/packet.ts';
import type { LookupAlgorithm, LookupInput } from '../plan/lookup-table.ts';
import type { Plan } from '../plan/types.ts';
import { inSlices } from '../sys/clock.ts';
import { type Answer, answer, type Serving } from './answer.ts';

const SLICE_MS = 5;
const NO_TABLE = new Uint16Array();

/**
 * The answer to `from`, `to` and `by` of a request; `{error}` if there is no plan or no such packet.
 * @param interfaceAddresses of this node: NodePorts are served on these, independent of the Node object
 */
export async function explained(
  plan: Plan | undefined,
  interfaceAddresses: readonly string[],
  serving: Serving,
  query: URLSearchParams,
  findings: readonly Finding[] = [],
): Promise<Answer | { readonly error: string }> {
  if (plan === undefined) return { error: 'the agent has no plan yet' };
  const localAddresses = [...plan.node.localAddresses, ...interfaceAddresses];
  const here = { ...plan, node: { ...plan.node, localAddresses } };
  const by = query.get('by') ?? undefined;
  const parsed = parsePacket(query.get('from') ?? '', query.get('to') ?? '', by);
  if (!parsed.ok) return { error: parsed.reason };
  const found = await withTable((tableOf) => answer(here, parsed.packet, { ...serving, tableOf }));
  return withNodeSteps(found, findings);
}

/** The first answer tells which table is needed, the second one has it. */
async function withTable(ask: (tableOf: TableOf) => Answer): Promise<Answer> {
  const wanted: (readonly [LookupAlgorithm, LookupInput])[] = [];
  const first = ask((...lookup) => {
    wanted.push(lookup);
    return NO_TABLE;
  });
  const [asked] = wanted;
  if (asked === undefined) return first;
  const [lookup, input] = asked;
  const table = await inSlices(lookup.populate(input), SLICE_MS);
  return ask(() => table ?? NO_TABLE);
}

/** What is in the way of sockets of the node's own pods and processes; packets from outside meet all of it. */
const OF_SOCKETS: readonly Topic[] = ['forward', 'marks', 'mesh', 'dns-cache'];

/** The answer with a step for each; the same if nothing is in the way, or nothing of ours is asked about. */
function withNodeSteps(answer: Answer, findings: readonly Finding[]): Answer {
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
