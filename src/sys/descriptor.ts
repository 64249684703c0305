// SPDX-License-Identifier: Apache-2.0
// The file descriptor of a socket of Node. There is no public way to it: `_handle.fd` is what node:cluster and node:child_process
// use, in every version so far; without it the answer is undefined, and a listener cannot be passed on.
import type { Server, Socket } from 'node:net';

export function descriptorOf(socket: Server | Socket): number | undefined {
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: unknown } | null };
  const fd = handle?.fd;
  return typeof fd === 'number' && fd >= 0 ? fd : undefined;
}
