// SPDX-License-Identifier: Apache-2.0
// Connections of a pod, as its kernel sees them.
import { readFileSync } from 'node:fs';

/** TCP_ESTABLISHED of include/net/tcp_states.h, as /proc/net/tcp shows it. */
const ESTABLISHED = '01';

/** TCP connections in the network namespace of a process, with those that its server has not accepted yet: killed now, it would reset them. */
export const connectionsOf = (pid: number): number =>
  ['tcp', 'tcp6'].reduce((sum, name) => {
    const rows = readFileSync(`/proc/${pid}/net/${name}`, 'utf8').split('\n');
    return sum + rows.filter((row) => row.trim().split(/\s+/)[3] === ESTABLISHED).length;
  }, 0);
