// SPDX-License-Identifier: Apache-2.0
// The lines of a watch on their way through a server: whole lines as they come, and the ways in which a
// stream can be broken inside one.
import type { IncomingMessage, ServerResponse } from 'node:http';

/** The way to the watcher. */
export interface EventStream {
  send(line: string): void;
  /** Half of the line, and then the orderly end of the answer. */
  endInside(line: string): void;
  /** Half of the line, and then the connection is gone. */
  breakInside(line: string): void;
}

/** `onLine` decides what becomes of each line; an answer that ends or breaks does so for the watcher, too. */
export function relayLines(
  answer: IncomingMessage,
  response: ServerResponse,
  onLine: (line: string, stream: EventStream) => void,
): void {
  const half = (line: string): string => line.slice(0, Math.floor(line.length / 2));
  const stream: EventStream = {
    send: (line) => response.write(`${line}\n`),
    endInside: (line) => response.end(half(line)),
    breakInside: (line) => response.write(half(line), () => response.socket?.destroy()),
  };
  let rest = '';
  answer.setEncoding('utf8');
  response.flushHeaders();
  answer.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (!response.writableEnded) onLine(line, stream);
  });
  answer.on('end', () => response.end());
}
