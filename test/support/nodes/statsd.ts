// SPDX-License-Identifier: Apache-2.0
// The driver's side of statsd.c: clients that connect once and never look at errors, and servers that count by phases.
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { type LineProgram, startLines } from '../../../tools/lab/lines.ts';
import { compiled } from '../programs/compiled.ts';
import type { OtherNode } from './other-node.ts';

export const STATSD_PORT = 8125;

/** Of a client. */
const PHASES = 4_096;

export interface Sink {
  /** Datagrams of a phase so far. */
  count(phase: number): Promise<number>;
}

export interface StatsdClient {
  /** Ends a phase, and tells which it was and how many datagrams were to be sent in it. */
  next(): Promise<{ readonly phase: number; readonly sent: number }>;
  /** Sockets that got an answer from the Service's address. */
  ask(): Promise<number>;
}

export interface Statsd {
  sink(short: string): Promise<Sink>;
  client(short: string, address: string, sockets: number): Promise<StatsdClient>;
  stop(): Promise<void>;
}

export function statsdOn({ stage }: OtherNode): Statsd {
  const programs: LineProgram[] = [];
  const start = async (short: string, words: readonly (string | number)[]) => {
    const { cluster } = stage();
    const path = join(cluster.directory, 'statsd');
    if (programs.length === 0) {
      copyFileSync(compiled(join(import.meta.dirname, 'statsd.c')), path);
    }
    const program = await startLines(cluster.sandbox(short), [path, ...words.map(String)]);
    programs.push(program);
    return program;
  };
  const number = async (program: LineProgram, line: string): Promise<number> =>
    Number(await program.exchange(line));
  return {
    sink: async (short) => {
      const program = await start(short, ['sink', STATSD_PORT]);
      return { count: (phase) => number(program, `count ${phase}`) };
    },
    client: async (short, address, sockets) => {
      // Clients run until the end: what one sends must not count as another's.
      const first = PHASES * programs.length;
      const program = await start(short, ['client', address, STATSD_PORT, sockets, first]);
      let phase = first - 1;
      return {
        next: async () => {
          const sent = await number(program, 'next');
          phase += 1;
          return { phase, sent };
        },
        ask: () => number(program, 'ask'),
      };
    },
    stop: async () => void (await Promise.all(programs.splice(0).map((one) => one.stop()))),
  };
}
