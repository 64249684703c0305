// SPDX-License-Identifier: Apache-2.0
// Two connections as one: what comes in at one side goes out at the other. The end of one direction is passed on and leaves the
// other open; a reset is passed on as a reset.
import type { Socket } from 'node:net';

/** Joins two connected sockets, neither of which has been read. @param onEnd called once, when both have ended */
export function relay(client: Socket, backend: Socket, onEnd: () => void): void {
  let open = 2;
  const closed = (): void => {
    open -= 1;
    if (open === 0) onEnd();
  };
  for (const [from, to] of [
    [client, backend],
    [backend, client],
  ] as const) {
    from.on('error', () => to.resetAndDestroy());
    from.once('close', () => {
      if (!from.readableEnded && !to.destroyed) to.resetAndDestroy();
      closed();
    });
    from.pipe(to);
  }
}
