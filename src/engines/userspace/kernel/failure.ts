// SPDX-License-Identifier: Apache-2.0
// A listener that could not be opened, as a failure of its frontend: what, why, and what to do.
import { reasonOf } from '../../../errors.ts';
import { hostPort } from '../../../lib/address-bytes.ts';
import type { FailedEntry } from '../../dataplane.ts';
import { frontendEntry } from '../../entry.ts';
import type { Listener } from '../listeners/listeners.ts';

export const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : '';

export const failedListener = (
  { id, service, protocol }: Listener,
  { address, port }: { readonly address: string; readonly port: number },
  error: unknown,
): FailedEntry => ({
  ...frontendEntry(id),
  code: 'WRITE_FAILED',
  reason: `cannot listen at ${hostPort(address, port)}/${protocol}: ${why(error, port)}`,
  service,
});

function why(error: unknown, port: number): string {
  switch (codeOf(error)) {
    case 'EADDRINUSE':
      return 'another process has this port; end that process, or give the Service another port (EADDRINUSE)';
    case 'EACCES':
      return `a port below 1024 needs CAP_NET_BIND_SERVICE, or net.ipv4.ip_unprivileged_port_start at ${port} or less (EACCES)`;
    case 'EADDRNOTAVAIL':
      return 'the node does not have the address, or cannot use it yet (EADDRNOTAVAIL)';
    case 'EMFILE':
      return "the agent has too many open files; raise its limit (ulimit -n, systemd's LimitNOFILE) (EMFILE)";
    default:
      return reasonOf(error);
  }
}
