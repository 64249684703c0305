// SPDX-License-Identifier: Apache-2.0
// What it means that the table of tracked connections cannot be read, and what to do. Pure.
import { reasonOf } from '../../errors.ts';

export interface ConntrackFailure {
  readonly reason: string;
  readonly effect: string;
}

const EFFECT = 'clients of UDP Services may keep sending to a backend that is gone';
const NO_MODULE =
  'this kernel has no nf_conntrack_netlink: if it tracks connections, run `modprobe nf_conntrack_netlink` on the node';

/** By the errno's name. */
const REASONS: Readonly<Record<string, string>> = {
  EPERM:
    'the kernel refuses to list connections: run the agent with CAP_NET_ADMIN in the network namespace that it serves',
  // Of the socket, without nfnetlink; of a request, without the module.
  EPROTONOSUPPORT: NO_MODULE,
  EINVAL: NO_MODULE,
  EOPNOTSUPP: NO_MODULE,
};

export function conntrackFailure(error: unknown): ConntrackFailure {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return { reason: REASONS[code] ?? reasonOf(error), effect: EFFECT };
}
