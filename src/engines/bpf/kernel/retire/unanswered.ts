// SPDX-License-Identifier: Apache-2.0
// UDP connections of a retired engine whose endpoint may be gone. Nobody tells its programs: they would send a client that keeps
// its port there for as long as it asks.
import type { ConnRecord } from '../../layout/conn-layout.ts';
import { secondsOf } from '../../layout/conn-layout.ts';
import { protocolOf } from '../../layout/layout.ts';
import { withFormerConns } from './former-flows.ts';

/** A question that has been sent just now may yet be answered. */
const ANSWER_SECONDS = 2;

/** Datagrams of both sides. */
interface Exchange {
  readonly asked: number;
  readonly answered: number;
}

/** By the record and when it began. */
export type Exchanges = ReadonlyMap<string, Exchange>;

export function exchangesOf(bpfRoot: string): Exchanges {
  const found = new Map<string, Exchange>();
  withFormerConns(bpfRoot, (record) => {
    if (isUdp(record)) found.set(keyOf(record), exchange(record));
  });
  return found;
}

/**
 * Ends those that have been asked since `before`, and have not answered. Their next datagram is the next engine's, which knows the
 * endpoints there are; so is that of a connection in which nobody answers ever.
 */
export function endUnanswered(bpfRoot: string, before: Exchanges): void {
  const now = Number(process.hrtime.bigint() / 1_000_000_000n);
  withFormerConns(bpfRoot, (record, end) => {
    const then = before.get(keyOf(record));
    if (then !== undefined && isUdp(record) && isUnanswered(record, then, now)) end();
  });
}

function isUnanswered(record: ConnRecord, then: Exchange, nowSeconds: number): boolean {
  const { asked, answered } = exchange(record);
  if (answered > then.answered || asked <= then.asked) return false;
  return asked > then.asked + 1 || nowSeconds - secondsOf(record.seenTick) >= ANSWER_SECONDS;
}

const isUdp = (record: ConnRecord): boolean => protocolOf(record.protocol) === 'UDP';

const keyOf = ({ family, index, bornTick }: ConnRecord): string => `${family} ${index} ${bornTick}`;

const exchange = ({ traffic }: ConnRecord): Exchange => ({
  asked: traffic[0] ?? 0,
  answered: traffic[2] ?? 0,
});
