// SPDX-License-Identifier: Apache-2.0
// Many flows that stay open and talk, each of which knows whom it talks to: TCP connections and UDP sockets of one client, over
// both families. Every line has a number, and must be the next one that comes back.
import { setTimeout as delay } from 'node:timers/promises';
import type { Answer } from '../../../tools/lab/client/protocol.ts';
import type { Client, OpenSocket } from '../../../tools/lab/traffic.ts';
import { PORTS, VIPS } from './direct-return.ts';

export interface HeldFlow {
  readonly protocol: 'TCP' | 'UDP';
  readonly family: number;
  /** `10.1.6.10:40000`, as `fairlead connections` has it. */
  readonly client: string;
  readonly backend: string;
  /** How a connection has ended, or what came instead of the next line. */
  readonly broken: string | undefined;
  /** The addresses that its backend has seen it under. */
  readonly seen: ReadonlySet<string>;
  /** Datagrams without an answer. */
  readonly lost: number;
}

export interface HeldFlows {
  readonly flows: readonly HeldFlow[];
  /** Each says a line and awaits the answer. */
  round(): Promise<void>;
  /** Each for itself says lines from before `change` until after it. */
  during(change: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

interface Open extends HeldFlow {
  readonly socket: OpenSocket;
  readonly seen: Set<string>;
  broken: string | undefined;
  lost: number;
  said: number;
}

/** TCP: more than a segment. */
const FILLER = { TCP: 'x'.repeat(2_000), UDP: 'y'.repeat(200) } as const;
/** Between two lines of a flow: they are many. */
const PAUSE_MS = 20;
/** While something changes, losses must be seen soon; else a server that has to wait for the processor has lost nothing. */
const SOON_MS = { TCP: 10_000, UDP: 500 };
const ROUND_MS = { TCP: 30_000, UDP: 10_000 };

/** @param addresses of the client, in the order of VIPS */
export async function openFlows(
  client: Client,
  addresses: readonly string[],
  count: { readonly TCP: number; readonly UDP: number },
): Promise<HeldFlows> {
  const wanted = (['TCP', 'UDP'] as const).flatMap((protocol) =>
    [0, 1].flatMap((family) =>
      Array.from({ length: count[protocol] }, () => [protocol, family] as const),
    ),
  );
  const flows = await Promise.all(
    wanted.map(([protocol, family]) => open(client, protocol, family, addresses[family] ?? '')),
  );
  const round = async (): Promise<void> => {
    await Promise.all(flows.map((flow) => say(flow, ROUND_MS)));
  };
  return {
    ...{ flows, round },
    during: async (change) => {
      let isOver = false;
      const talk = async (flow: Open): Promise<void> => {
        for (; !isOver; await delay(PAUSE_MS)) await say(flow, SOON_MS);
        await say(flow, SOON_MS);
      };
      const talking = Promise.all(flows.map(talk));
      await change().finally(() => {
        isOver = true;
      });
      await talking;
    },
    close: async () => {
      for (const { socket } of flows) await socket.close();
    },
  };
}

async function open(
  client: Client,
  protocol: 'TCP' | 'UDP',
  family: number,
  address: string,
): Promise<Open> {
  const target = { protocol, address: VIPS[family] ?? '', port: PORTS[protocol] };
  const socket = await client.open(target);
  const first = socket.answer ?? (await socket.talk('first'));
  if (first.kind === 'failed') throw new Error(`${protocol} to ${target.address}: ${first.code}`);
  const { port } = first.local;
  return {
    ...{ protocol, family, socket, backend: first.backend },
    ...{ seen: new Set(), broken: undefined, lost: 0, said: 0 },
    client: family === 0 ? `${address}:${port}` : `[${address}]:${port}`,
  };
}

async function say(flow: Open, timeoutsMs: typeof ROUND_MS): Promise<void> {
  if (flow.broken !== undefined) return;
  flow.said += 1;
  const text = `${flow.said} ${FILLER[flow.protocol]}`;
  const answer = await flow.socket.talk(text, undefined, timeoutsMs[flow.protocol]);
  if (answer.kind === 'answered') flow.seen.add(answer.clientSeen.address);
  if (answer.kind === 'failed' && flow.protocol === 'UDP') flow.lost += 1;
  else flow.broken = wrongIn(answer, flow.backend, text);
}

function wrongIn(answer: Answer, backend: string, text: string): string | undefined {
  if (answer.kind === 'failed') return answer.code;
  if (answer.backend !== backend) return `answered by ${answer.backend} instead of ${backend}`;
  return answer.text === text ? undefined : `not line ${Number.parseInt(text, 10)}`;
}
