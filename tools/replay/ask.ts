// SPDX-License-Identifier: Apache-2.0
// What clients get at each frontend, beside what the agent explains.

import type { Family, FrontendKind } from '../../src/model/types.ts';
import type { Answer } from '../../src/observe/answer.ts';
import type { Plan } from '../../src/plan/types.ts';
import { askAgent, READING_TIMEOUT_MS } from '../../src/server/admin-socket.ts';
import type { Client } from '../lab/traffic.ts';

export interface Question {
  readonly service: string;
  readonly kind: FrontendKind;
  readonly family: Family;
  readonly protocol: 'TCP' | 'UDP';
  readonly address: string;
  readonly port: number;
}

export interface Asker {
  readonly position: 'pod' | 'host' | 'outside';
  readonly client: Client;
  /** The address that it has in this family. */
  readonly from: (family: Family) => string | undefined;
}

export interface ReplayRow extends Question {
  readonly client: Asker['position'];
  readonly explained: Pick<Answer, 'verdict' | 'backends' | 'limits'>;
  readonly answers: Readonly<Record<string, number>>;
  readonly failures: Readonly<Record<string, number>>;
  readonly isAsExplained: boolean;
}

export function questionsOf(
  { services }: Plan,
  nodeAddress: (family: Family) => string | undefined,
): readonly Question[] {
  return [...services].flatMap(([service, { ports }]) =>
    ports.flatMap(({ family, protocol, frontends }) =>
      protocol === 'SCTP'
        ? []
        : frontends.flatMap(({ kind, address = nodeAddress(family), port }) =>
            address === undefined ? [] : [{ service, kind, family, protocol, address, port }],
          ),
    ),
  );
}

/** Three times as many as there are backends, so that each is met in most runs; none has to be. */
const connectionsFor = (backends: number): number => Math.min(60, Math.max(4, 3 * backends));
const TIMEOUT_MS = 1_000;

/** undefined: this client has no address of that family. */
export async function ask(
  runDir: string,
  question: Question,
  { position, client, from }: Asker,
): Promise<ReplayRow | undefined> {
  const { address, port, protocol, family } = question;
  const source = from(family);
  if (source === undefined) return undefined;
  const host = family === 'IPv6' ? `[${address}]` : address;
  const query = new URLSearchParams({
    from: source,
    to: `${host}:${port}/${protocol.toLowerCase()}`,
  });
  const answer = (await askAgent(runDir, `/v1/explain?${query}`, READING_TIMEOUT_MS)) as Answer;
  const { hits, failures } = await client.burst(
    { protocol, address, port },
    { connections: connectionsFor(answer.backends.length), concurrency: 8, timeoutMs: TIMEOUT_MS },
  );
  const { verdict, backends, limits } = answer;
  return {
    ...question,
    ...{ client: position, explained: { verdict, backends, limits }, answers: hits, failures },
    isAsExplained: isAs(answer, hits, failures),
  };
}

/** What a client has that got no packet back: its own time is over, or a hook has said so. */
const SILENCE: readonly string[] = ['TIMEOUT', 'ETIMEDOUT'];

/**
 * What no dataplane serves may end in any way. Where it is to be refused, silence counts as well: the kernel sends a peer few
 * ICMP errors a second.
 */
export function isAs(
  { verdict, backends, limits }: Pick<Answer, 'verdict' | 'backends' | 'limits'>,
  hits: Readonly<Record<string, number>>,
  failures: Readonly<Record<string, number>>,
): boolean {
  if (limits.length > 0 || verdict === 'none') return true;
  const codes = Object.keys(failures);
  if (verdict === 'forward')
    return codes.length === 0 && Object.keys(hits).every((one) => backends.includes(one));
  const isSilent = codes.every((one) => SILENCE.includes(one));
  return Object.keys(hits).length === 0 && (verdict === 'reject' || isSilent);
}
