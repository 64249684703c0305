// SPDX-License-Identifier: Apache-2.0
// Forwards the lines of a watch through the faulty server, and breaks the stream within a line on request.
import type { IncomingMessage, ServerResponse } from 'node:http';

/** The stream to the client. */
export interface EventStream {
  send(line: string): void;
  /** Sends half of the line, then ends the response properly. */
  endInside(line: string): void;
  /** Sends half of the line, then resets the connection. */
  breakInside(line: string): void;
}

/** `onLine` decides what is sent for each line; the end or failure of the response is forwarded too. */
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
