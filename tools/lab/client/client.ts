// SPDX-License-Identifier: Apache-2.0
// The program in a client pod: serves requests of protocol.ts, one JSON object a line on standard input,
// until that is closed. Requests run side by side. Prints `ready` once.
import { createInterface } from 'node:readline';
import { exchange } from './exchange.ts';
import { type HeldSocket, openSocket } from './held-socket.ts';
import { burst, type Load, startLoad } from './load.ts';
import type { OperationName, Operations, ReplyMessage, RequestMessage } from './protocol.ts';

const sockets = new Map<number, HeldSocket>();
const loads = new Map<number, Load>();
let lastHandle = 0;

function keep<T>(items: Map<number, T>, thing: T): number {
  lastHandle += 1;
  items.set(lastHandle, thing);
  return lastHandle;
}

function find<T>(items: ReadonlyMap<number, T>, handle: number): T {
  const thing = items.get(handle);
  if (thing === undefined) throw new Error(`no such handle: ${handle}`);
  return thing;
}

type Serve<Op extends OperationName> = (
  request: Operations[Op]['request'],
  onProgress: (done: number) => void,
) => Promise<Operations[Op]['reply']>;

const operations: { readonly [Op in OperationName]: Serve<Op> } = {
  once: ({ target, timeoutMs }) => exchange(target, timeoutMs),
  burst,
  startLoad: async (request) => ({ load: keep(loads, startLoad(request)) }),
  readLoad: async ({ load }) => find(loads, load).read(),
  stopLoad: ({ load }) => find(loads, load).stop(),
  open: async ({ target, timeoutMs }) => {
    const held = await openSocket(target, timeoutMs);
    const socket = keep(sockets, held);
    return held.greeting === undefined ? { socket } : { socket, answer: held.greeting };
  },
  talk: ({ socket, text, timeoutMs, to }) => find(sockets, socket).talk(text, timeoutMs, to),
  close: async ({ socket }) => {
    find(sockets, socket).close();
    sockets.delete(socket);
    return {};
  },
};

function say<Op extends OperationName>(message: ReplyMessage<Op>): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

async function serve<Op extends OperationName>(message: RequestMessage<Op>): Promise<void> {
  const { id } = message;
  try {
    const onProgress = (progress: number): void => say<Op>({ id, progress });
    say<Op>({ id, reply: await operations[message.op](message.request, onProgress) });
  } catch (error) {
    say<Op>({ id, error: error instanceof Error ? error.message : String(error) });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => serve(JSON.parse(line)));
// The driver is gone: exit and close everything that is open.
lines.on('close', () => process.exit(0));
process.stdout.write('ready\n');
