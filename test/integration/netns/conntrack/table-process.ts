// SPDX-License-Identifier: Apache-2.0
// A process in a network namespace that makes, reads and deletes entries of its connection tracking.
import { fileURLToPath } from 'node:url';
import { type Child, start, stop } from '../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import { type TrackedFlow, trackRequest } from '../../../support/conntrack.ts';
import { until } from '../../../support/until.ts';

const CHILD = fileURLToPath(new URL('table-child.mjs', import.meta.url));
const MODULES = fileURLToPath(new URL('../../../../build/js', import.meta.url));

export interface Removal {
  readonly entries: number;
  readonly deleted: number;
  readonly isWhole: boolean;
  readonly elapsedMs: number;
  /** Of the event loop. */
  readonly p99Ms: number;
  readonly maxMs: number;
  /** The most CPU time between two turns of it. */
  readonly turnMs: number;
  readonly rssMiB: number;
}

export interface TableProcess {
  track(...flows: readonly TrackedFlow[]): Promise<void>;
  /** Like this one, from many sources. */
  trackMany(flow: TrackedFlow, count: number): Promise<void>;
  /** `udp 10.96.0.10:53 <- 10.1.1.5:5353`, sorted. */
  flows(family?: 'IPv4' | 'IPv6'): Promise<readonly string[]>;
  remove(protocol: TrackedFlow['protocol'], port: number): Promise<Removal>;
  ask(command: string, input?: object): Promise<Record<string, unknown>>;
  end(): Promise<void>;
}

interface Listed {
  readonly protocol: string;
  readonly destination: string;
  readonly destinationPort: number;
  readonly replySource: string;
  readonly replySourcePort: number;
}

const flowText = (flow: Listed): string =>
  `${flow.protocol.toLowerCase()} ${flow.destination}:${flow.destinationPort} <- ${flow.replySource}:${flow.replySourcePort}`;

/** @param wrap argv of the process, e.g. to take capabilities away from it */
export async function startTableProcess(
  namespace: string,
  wrap: (argv: readonly string[]) => readonly string[] = (argv) => argv,
): Promise<TableProcess> {
  const lines: string[] = [];
  const errors: string[] = [];
  const argv = insideNamespace(namespace, wrap([process.execPath, CHILD, MODULES]) as string[]);
  const child: Child = start(argv[0] ?? '', argv.slice(1), {
    onStdoutLine: (line) => lines.push(line),
    onStderrLine: (line) => errors.push(line),
  });
  const answer = async (before: number): Promise<Record<string, unknown>> => {
    const has = (): boolean => lines.length > before || child.hasExited();
    await until(has, { what: 'an answer', timeoutMs: 60_000 });
    if (lines.length <= before) throw new Error(`it ended: ${errors.join('\n')}`);
    return JSON.parse(lines[before] ?? '') as Record<string, unknown>;
  };
  const ask: TableProcess['ask'] = (command, input = {}) => {
    const before = lines.length;
    child.writeLine(JSON.stringify({ command, ...input }));
    return answer(before);
  };
  const make = async (command: string, input: object): Promise<void> => {
    const { errnos } = await ask(command, input);
    const [first] = errnos as readonly number[];
    if (first !== undefined) throw new Error(`not tracked: errno ${first}`);
  };
  await answer(0);
  return {
    ask,
    track: (...flows) =>
      make('track', { requests: flows.map((flow) => base64(trackRequest(flow))) }),
    trackMany: (flow, count) => make('fill', { count, ...templateOf(flow) }),
    async flows(family = 'IPv4') {
      const { flows } = await ask('list', { family });
      return (flows as readonly Listed[]).map(flowText).sort();
    },
    remove: async (protocol, port) =>
      (await ask('remove', { family: 'IPv4', protocol, port })) as unknown as Removal,
    end: async () => void (await stop(child)),
  };
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

/** Where the source stands in the request, in both tuples. */
function templateOf(flow: TrackedFlow): object {
  const request = Buffer.from(trackRequest({ ...flow, source: '10.254.0.0', sourcePort: 4660 }));
  const offsetsOf = (bytes: readonly number[]): readonly number[] => {
    const offsets: number[] = [];
    const wanted = Buffer.from(bytes);
    for (let at = request.indexOf(wanted); at >= 0; at = request.indexOf(wanted, at + 1))
      offsets.push(at);
    return offsets;
  };
  return {
    request: base64(request),
    addressAt: offsetsOf([10, 254, 0, 0]),
    portAt: offsetsOf([0x12, 0x34]),
  };
}
