// SPDX-License-Identifier: Apache-2.0
// The source of API objects that the settings name.
import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { lastGoodPath } from '../config/instance-paths.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Config } from '../config/types.ts';
import { FairleadError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { clusterSource } from '../source/apiserver/source.ts';
import { findApiServer } from '../source/apiserver/transport/api-server.ts';
import { discoveryEnvironment } from '../source/apiserver/transport/discovery-environment.ts';
import { keeperOf } from '../source/manifests/last-good/keeper.ts';
import { manifestsSource } from '../source/manifests/source.ts';
import type { Source } from '../source/source.ts';
import { SYSTEM_CLOCK } from '../sys/clock.ts';
import { packageVersion } from '../sys/package.ts';

/** Throws NO_MANIFESTS, NO_API_SERVER, BAD_KUBECONFIG. */
export async function sourceOf(loaded: LoadedConfig, log: Logger): Promise<() => Source> {
  const { source, own } = loaded.config;
  const runDir = resolve(own.runDir);
  if (source.kind === 'manifests') {
    const dir = manifestsDir(source.dir);
    const path = lastGoodPath(runDir);
    const keep = keeperOf({ path, folder: dir, clock: SYSTEM_CLOCK, log });
    return () => manifestsSource(dir, { removalDelayMs: source.removalDelayMs, keep });
  }
  return apiServerOf(loaded, source, log);
}

type ApiServerSettings = Extract<Config['source'], { readonly kind: 'api' }>;

/** Throws NO_API_SERVER, BAD_KUBECONFIG. */
export async function apiServerOf(
  { config: { plan, own }, file }: LoadedConfig,
  source: ApiServerSettings,
  log: Logger,
): Promise<() => Source> {
  const runDir = resolve(own.runDir);
  const apiServer = await findApiServer(
    {
      apiServers: source.apiServers,
      // With --config, --kubeconfig is ignored: the value came from the file.
      kubeconfig: file === undefined ? source.kubeconfig : undefined,
      configKubeconfig: file === undefined ? undefined : source.kubeconfig,
      master: undefined,
    },
    await discoveryEnvironment(runDir),
  );
  return () =>
    clusterSource({
      nodeName: plan.nodeName,
      apiServer,
      runDir,
      watchesServiceCidrs: true,
      userAgent: `fairlead/${packageVersion()} (${process.platform}/${process.arch})`,
      log,
    });
}

/** Throws NO_MANIFESTS. */
function manifestsDir(dir: string): string {
  const path = resolve(dir);
  const facts = statSync(path, { throwIfNoEntry: false });
  if (facts?.isDirectory() === true) return path;
  throw new FairleadError(
    'NO_MANIFESTS',
    facts === undefined
      ? `--manifests ${path} does not exist: create it, or name a directory of Service, EndpointSlice and Node manifests`
      : `--manifests ${path} is a file: name its directory, ${dirname(path)}`,
  );
}
