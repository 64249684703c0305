// SPDX-License-Identifier: Apache-2.0
// A proxy that runs on a node of a site, whichever it is: in a cgroup of its own, with nothing in it but
// the proxy and what it starts.
import { dirname, join } from 'node:path';
import type { Sandbox } from '../../src/lab/sandbox.ts';
import { makeCgroup } from '../../src/sys/cgroup.ts';
import { cpuSeconds, residentBytes } from './account.ts';
import { type LineChild, startChild } from './child.ts';
import { monotonicMs } from './clock.ts';
import type { ProxyName } from './figures.ts';
import type { Site } from './site.ts';

export interface RunningProxy {
  readonly name: ProxyName;
  readonly startedMs: number;
  cpuSeconds(): number;
  residentBytes(): { readonly peak: number; readonly now: number };
  /** Longest stall since the last time of asking; undefined for programs without an event loop. */
  takeStallMs(): Promise<number | undefined>;
  /** Of the time before its first line of log, known once that was written. */
  loadingStallMs(): Promise<number | undefined>;
  /** Rejects with what it said last when it has ended. */
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

/** Makes the cgroup; it goes with the site's control plane. */
export function proxySandbox(site: Site, name: ProxyName): ProxySandbox {
  const { namespace } = site.nodeOf(name);
  const shared = site.plane.sandbox(name, namespace);
  const sandbox = { ...shared, cgroup: join(dirname(shared.cgroup), name) };
  makeCgroup(sandbox.cgroup);
  return {
    sandbox,
    start: (argv, onComplaint) => {
      const startedMs = monotonicMs();
      const child = startChild(sandbox, argv, onComplaint);
      return {
        ...{ name, startedMs, child },
        cpuSeconds: () => cpuSeconds(sandbox.cgroup),
        residentBytes: () => residentBytes(child.pid),
        ended: () => child.ended(),
        stop: () => child.stop(),
      };
    },
  };
}
