// SPDX-License-Identifier: Apache-2.0
// Starts the built fairlead on its node of a site, without earlier pins and with a monitor of its event loop.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeInstance, ownPaths } from '../../../src/lab/agent.ts';
import { compiledPath } from '../../../src/lab/sandbox.ts';
import { packageRoot } from '../../../src/sys/package.ts';
import { until } from '../../../test/support/until.ts';
import { fromNanoseconds } from '../clock.ts';
import type { Site } from '../site.ts';
import type { LineChild } from './child.ts';
import { proxySandbox, type RunningProxy } from './proxy.ts';

const PRELOADED = join(packageRoot(), 'bench', 'control', 'proxies', 'stall-probe.mjs');

export async function startFairlead(site: Site): Promise<RunningProxy> {
  const instance = await makeInstance(site.topology, site.nodeOf('fairlead'));
  const kubeconfig = site.plane.kubeconfig({ identity: 'proxy', from: 'node' });
  const stallFile = join(instance.runDir, 'stalls');
  const settings = [`NODE_OPTIONS=--import=${PRELOADED}`, `FAIRLEAD_BENCH_STALLS=${stallFile}`];
  const args = [
    ...['run', '--kubeconfig', kubeconfig, '--hostname-override', instance.nodeName],
    ...['--cgroup-root', instance.cgroupRoot, ...ownPaths(instance)],
  ];
  let loading: Promise<number> | undefined;
  // As in the image: its first line has flags for Node.
  const argv = ['env', ...settings, compiledPath('main.js'), ...args];
  const { child, ...proxy } = proxySandbox(site, 'fairlead').start(argv, () => {
    // Its first log line: all modules are loaded.
    loading ??= takeStallMs(child, stallFile);
  });
  return {
    ...proxy,
    loadingStallMs: async () => loading,
    takeStallMs: async () => {
      await loading; // One question at a time.
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
