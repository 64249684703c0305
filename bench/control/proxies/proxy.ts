// SPDX-License-Identifier: Apache-2.0
// A proxy that runs on a node of a site, in its own cgroup, which holds only the proxy and its children.
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeCgroup } from '../../../src/sys/cgroup.ts';
import { cpuSeconds, residentBytes } from '../../../tools/lab/account.ts';
import type { Sandbox } from '../../../tools/lab/sandbox.ts';
import { monotonicMs } from '../clock.ts';
import type { ProxyName } from '../report/figures.ts';
import { type Seat, type Site, seatName } from '../site.ts';
import { type LineChild, startChild } from './child.ts';

export interface RunningProxy {
  readonly name: ProxyName;
  readonly startedMs: number;
  cpuSeconds(): number;
  residentBytes(): { readonly peak: number; readonly now: number };
  /**
   * Longest stall since the previous call; undefined for programs without an event loop.
   * @param then `pause`: until the next call nothing is measured, which takes CPU time itself
   */
  takeStallMs(then?: 'pause'): Promise<number | undefined>;
  /** Longest stall before its first log line, known once that was written. */
  loadingStallMs(): Promise<number | undefined>;
  /** Rejects with its last output when it has exited. */
  ended(): Promise<never>;
  stop(): Promise<void>;
}

export interface ProxySandbox {
  readonly sandbox: Sandbox;
  start(argv: readonly string[], onComplaint?: (line: string) => void): StartedProxy;
}

export type StartedProxy = Omit<RunningProxy, 'takeStallMs' | 'loadingStallMs'> & {
  readonly child: LineChild;
};

/** Creates the cgroup, which is removed with the site's control plane. */
export function proxySandbox(site: Site, seat: Seat): ProxySandbox {
  const { namespace } = site.nodeOf(seat);
  const name = seatName(seat);
  const shared = site.plane.sandbox(name, namespace);
  const sandbox = { ...shared, cgroup: join(dirname(shared.cgroup), name) };
  makeCgroup(sandbox.cgroup);
  return {
    sandbox,
    start: (argv, onComplaint) => {
      const startedMs = monotonicMs();
      const child = startChild(sandbox, argv, onComplaint);
      return {
        ...{ name: seat.proxy, startedMs, child },
        cpuSeconds: () => cpuSeconds(sandbox.cgroup),
        residentBytes: () => residentBytes(child.pid),
        ended: () => child.ended(),
        stop: async () => {
          await child.stop();
          // A tool that it has started may run for minutes.
          writeFileSync(join(sandbox.cgroup, 'cgroup.kill'), '1');
        },
      };
    },
  };
}

/** Rules belong to a namespace, but the lock of their tools would be the machine's. */
export const ownLock = ({ plane }: Site, seat: Seat): string =>
  `XTABLES_LOCKFILE=${join(plane.directory, `${seatName(seat)}.lock`)}`;
