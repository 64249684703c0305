// SPDX-License-Identifier: Apache-2.0
// Traffic that runs while one proxy takes the place of another: new connections all the time, TCP streams that stay open, and
// UDP sockets that keep their source port. What each of them met is counted.
import type { Answer, Target } from '../../../../tools/lab/client/protocol.ts';
import type { Client, OpenSocket, RunningLoad } from '../../../../tools/lab/traffic.ts';

export interface Traffic {
  /** After a switch: what happened since the last call. */
  report(name: string): Promise<SwitchReport>;
  close(): Promise<void>;
}

export interface SwitchReport {
  readonly name: string;
  readonly connections: number;
  readonly failed: number;
  /** Streams opened before the switch that still answer. */
  readonly streams: string;
  /** UDP sockets whose next datagram was answered, and by the same endpoint. */
  readonly udpAnswered: string;
  readonly udpSame: string;
  /** Clients of a Service with session affinity that kept their endpoint. */
  readonly affinity: string;
}

export interface Targets {
  readonly tcp: Target;
  readonly udp: Target;
  readonly sticky: Target;
}

const STREAMS = 8;

interface Held {
  readonly socket: OpenSocket;
  readonly backend: string;
}

const backendOf = (answer: Answer | undefined): string =>
  answer?.kind === 'answered' ? answer.backend : `(${answer?.code ?? 'nothing'})`;

export async function startTraffic(client: Client, targets: Targets): Promise<Traffic> {
  let streams: Held[] = [];
  let datagrams: Held[] = [];
  let sticky = '';
  let load: RunningLoad;
  const open = async (): Promise<void> => {
    streams = await Promise.all(
      Array.from({ length: STREAMS }, async () => {
        const socket = await client.open(targets.tcp);
        return { socket, backend: backendOf(socket.answer) };
      }),
    );
    datagrams = await Promise.all(
      Array.from({ length: STREAMS }, async () => {
        const socket = await client.open({ ...targets.udp, isConnected: true });
        await socket.talk('first');
        return { socket, backend: backendOf(await socket.talk('second')) };
      }),
    );
    sticky = backendOf(await client.once(targets.sticky));
    load = await client.startLoad(targets.tcp);
  };
  const close = async (): Promise<void> => {
    await Promise.all([...streams, ...datagrams].map(({ socket }) => socket.close()));
  };
  await open();
  return {
    close,
    report: async (name) => {
      const { failureCount, connections } = await load.stop();
      const talked = await Promise.all(
        streams.map(async ({ socket, backend }) => backendOf(await socket.talk('on')) === backend),
      );
      const met = await Promise.all(
        datagrams.map(async ({ socket, backend }) => ({
          before: backend,
          after: backendOf(await socket.talk('on')),
        })),
      );
      const of = (count: number): string => `${count}/${STREAMS}`;
      const report: SwitchReport = {
        name,
        connections,
        failed: failureCount,
        streams: of(talked.filter((isAlive) => isAlive).length),
        udpAnswered: of(met.filter(({ after }) => !after.startsWith('(')).length),
        udpSame: of(met.filter(({ before, after }) => before === after).length),
        affinity: backendOf(await client.once(targets.sticky)) === sticky ? 'kept' : 'chosen anew',
      };
      process.stdout.write(`${JSON.stringify(report)}\n`);
      await close();
      await open();
      return report;
    },
  };
}
