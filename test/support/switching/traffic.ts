// SPDX-License-Identifier: Apache-2.0
// Traffic of every kind of client while engines take each other's place: new connections and questions all the time, and
// sockets that were open before each switch.
import type { Answer, Target } from '../../../tools/lab/client/protocol.ts';
import type { Client, OpenSocket } from '../../../tools/lab/traffic.ts';

/** One kind of client, and where it reaches the Services. */
export interface Path {
  readonly client: Client;
  readonly tcp: Target;
  readonly udp: Target;
}

export interface SwitchReport {
  readonly requests: number;
  /** By path and protocol, of each its reason. */
  readonly failed: Readonly<Record<string, readonly string[]>>;
  /** Sockets that were open before and got no answer, or another endpoint's. */
  readonly lost: { readonly tcp: readonly string[]; readonly udp: readonly string[] };
  readonly ms: number;
}

/** New ones each second: some two hundred. Of each load: as many requests are under way. */
export const WORKERS = 2;
const LOAD = { concurrency: WORKERS, pauseMs: 40, timeoutMs: 10_000 } as const;
/** Of each path and protocol. */
const HELD = 2;

interface Flow {
  readonly name: string;
  readonly client: Client;
  readonly target: Target;
}

interface Held {
  readonly name: string;
  readonly protocol: Target['protocol'];
  readonly socket: OpenSocket;
  readonly backend: string;
}

const backendOf = (answer: Answer | undefined): string =>
  answer?.kind === 'answered' ? answer.backend : `(${answer?.code ?? 'nothing'})`;

/** While the action runs. @returns what its clients met; to stop a load waits for what is under way */
export async function trafficDuring(
  paths: Readonly<Record<string, Path>>,
  action: () => Promise<void>,
): Promise<SwitchReport> {
  const flows = Object.entries(paths).flatMap(([path, { client, tcp, udp }]) =>
    [tcp, udp].map((target): Flow => ({ name: `${path} ${target.protocol}`, client, target })),
  );
  const startedMs = performance.now();
  const held = (await Promise.all(flows.map(hold))).flat();
  const loads = await Promise.all(
    flows.map(({ client, target }) => client.startLoad(target, LOAD)),
  );
  await action();
  const reports = await Promise.all(loads.map((load) => load.stop()));
  return {
    requests: reports.reduce((all, { connections }) => all + connections, 0),
    failed: Object.fromEntries(
      flows.flatMap(({ name }, index) => {
        const { failureCount = 0, failures = [] } = reports[index] ?? {};
        return failureCount === 0 ? [] : [[name, failures.map(({ code }) => code)]];
      }),
    ),
    lost: await talkTo(held),
    ms: Math.round(performance.now() - startedMs),
  };
}

const LOST = ['tcp', 'udp'] as const;

/** A line of a table: from, to, requests, which failed, which open sockets were lost, seconds. */
export function tableLine(from: string, to: string, report: SwitchReport): string {
  const { requests, failed, lost, ms } = report;
  const failures = Object.entries(failed).map(([name, codes]) => `${name} ${codes.length}`);
  const ended = LOST.flatMap((protocol) =>
    lost[protocol].length === 0 ? [] : [`${protocol.toUpperCase()} ${lost[protocol].length}`],
  );
  const cells = [from, to, requests, textOf(failures), textOf(ended), (ms / 1000).toFixed(1)];
  return `| ${cells.join(' | ')} |`;
}

const textOf = (parts: readonly string[]): string => (parts.length === 0 ? '0' : parts.join(', '));

/** A UDP flow is established by the request after two that were answered. */
const hold = ({ name, client, target }: Flow): Promise<Held[]> =>
  Promise.all(
    Array.from({ length: HELD }, async () => {
      const { protocol } = target;
      const socket = await client.open(
        protocol === 'UDP' ? { ...target, isConnected: true } : target,
      );
      await socket.talk('first');
      await socket.talk('second');
      return { name, protocol, socket, backend: backendOf(await socket.talk('third')) };
    }),
  );

/** Datagrams may be lost, and may get another endpoint: a client asks again. */
async function talkTo(held: readonly Held[]): Promise<SwitchReport['lost']> {
  const met = await Promise.all(
    held.map(async ({ name, protocol, socket, backend }) => {
      const answer = backendOf(await socket.talk('still there').catch(asFailure));
      await socket.close();
      const isKept = protocol === 'TCP' ? answer === backend : !answer.startsWith('(');
      return { protocol, text: isKept ? '' : `${name}: ${backend}, then ${answer}` };
    }),
  );
  const of = (wanted: Target['protocol']): readonly string[] =>
    met.flatMap(({ protocol, text }) => (protocol === wanted && text !== '' ? [text] : []));
  return { tcp: of('TCP'), udp: of('UDP') };
}

const asFailure = (error: unknown): Answer => ({
  ...{ kind: 'failed', code: String(error), elapsedMs: 0 },
});
