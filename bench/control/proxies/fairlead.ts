// SPDX-License-Identifier: Apache-2.0
// Starts the built fairlead on its node of a site, without earlier pins and rules, and with a monitor of its event loop.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../../src/sys/package.ts';
import { until } from '../../../test/support/until.ts';
import { leaveKubeletChain } from '../../../tools/bench/proxies/tools.ts';
import { makeInstance, ownPaths } from '../../../tools/lab/agent.ts';
import { compiledPath, IMAGE_ENVIRONMENT } from '../../../tools/lab/sandbox.ts';
import { fromNanoseconds } from '../clock.ts';
import type { ProxyName } from '../report/figures.ts';
import type { Seat, Site } from '../site.ts';
import type { LineChild } from './child.ts';
import { ownLock, proxySandbox, type RunningProxy } from './proxy.ts';

const PRELOADED = join(packageRoot(), 'bench', 'control', 'proxies', 'stall-probe.mjs');

const ENGINES: Readonly<Partial<Record<ProxyName, string>>> = {
  'fairlead-iptables': 'iptables',
  'fairlead-nftables': 'nftables',
};

export async function startFairlead(site: Site, seat: Seat): Promise<RunningProxy> {
  const instance = await makeInstance(site.topology, site.nodeOf(seat));
  const kubeconfig = site.plane.kubeconfig({ identity: 'proxy', from: 'node' });
  const stallFile = join(instance.runDir, 'stalls');
  const settings = [`NODE_OPTIONS=--import=${PRELOADED}`, `FAIRLEAD_BENCH_STALLS=${stallFile}`];
  const engine = ENGINES[seat.proxy];
  const args = [
    ...['run', '--kubeconfig', kubeconfig, '--hostname-override', instance.nodeName],
    ...['--cgroup-root', instance.cgroupRoot, ...ownPaths(instance)],
    ...(engine === undefined ? [] : ['--engine', engine]),
  ];
  const { sandbox, start } = proxySandbox(site, seat);
  if (engine === 'iptables') await leaveKubeletChain(sandbox, site.variant, ownLock(site, seat));
  let loading: Promise<number> | undefined;
  // As in the image: its first line has flags for Node.
  const own = [...IMAGE_ENVIRONMENT, ownLock(site, seat), ...settings];
  const argv = ['env', ...own, compiledPath('main.js'), ...args];
  const { child, ...proxy } = start(argv, () => {
    // Its first log line: all modules are loaded.
    loading ??= takeStallMs(child, stallFile);
  });
  return {
    ...proxy,
    loadingStallMs: async () => loading,
    takeStallMs: async (then) => {
      await loading; // One question at a time.
      if (then === 'pause') writeFileSync(`${stallFile}.paused`, '');
      else rmSync(`${stallFile}.paused`, { force: true });
      return takeStallMs(child, stallFile);
    },
  };
}

async function takeStallMs(child: LineChild, file: string): Promise<number> {
  const read = (): string[] =>
    existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
  const before = read().length;
  child.signal('SIGUSR2');
  const lines = await until(
    () => {
      const now = read();
      return now.length > before && now;
    },
    { what: 'fairlead tells its longest stall', timeoutMs: 15_000 },
  );
  return fromNanoseconds(lines.at(-1) ?? '');
}
