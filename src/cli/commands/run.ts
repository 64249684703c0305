// SPDX-License-Identifier: Apache-2.0
// `fairlead run`: the agent. Exits on SIGTERM or SIGINT within a second. The programmed state is kept and serves
// traffic, unless --ephemeral removes it.
import { statSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { Command } from 'commander';
import {
  type Instance,
  type InstanceSettings,
  type OpenDataplane,
  startInstance,
} from '../../agent/instance.ts';
import { checkCgroupRoot } from '../../agent/preflight/checks.ts';
import { findOtherInstances } from '../../agent/preflight/other-instances.ts';
import {
  findKubeProxy,
  findOtherProxies,
  isInitialNamespace,
  mayHaveProxyRules,
} from '../../agent/preflight/other-proxies.ts';
import { applySysctls, countCpus, type SysctlResult } from '../../agent/preflight/sysctls.ts';
import { watchConfigFile } from '../../config/file/watch.ts';
import { configText, configz } from '../../config/file/write.ts';
import { flagz } from '../../config/flags/flagz.ts';
import { type LoadedConfig, loadConfig } from '../../config/load.ts';
import {
  needsRouteLocalnet,
  OOM_SCORE_PATH,
  oomScoreWrite,
  ROUTE_LOCALNET,
  sysctlWrites,
} from '../../config/sysctls.ts';
import type { Config } from '../../config/types.ts';
import { FairleadError } from '../../errors.ts';
import { createLogger, type Logger } from '../../log.ts';
import { clusterSource } from '../../source/apiserver/source.ts';
import { findApiServer } from '../../source/apiserver/transport/api-server.ts';
import { discoveryEnvironment } from '../../source/apiserver/transport/discovery-environment.ts';
import { manifestsSource } from '../../source/manifests/source.ts';
import type { Source } from '../../source/source.ts';
import { packageVersion } from '../../sys/package.ts';
import { addAllFlags, flagValues } from '../config-flags.ts';
import { dataplaneOf } from '../dataplanes.ts';
import { deviceSettings } from '../device-settings.ts';
import { type ChosenEngine, chooseEngine } from '../engine.ts';
import { allEngines } from '../leftovers/engines.ts';
import { say } from '../output.ts';
import { catchSignals } from '../signals.ts';

export function runCommand(): Command {
  return addAllFlags(
    new Command('run').description(
      "run the agent, which keeps the kernel in sync with the cluster's Services (accepts kube-proxy's flags and configuration file)",
    ),
  ).action((_options: unknown, command: Command) => run(command));
}

async function run(command: Command): Promise<void> {
  const loaded = loadConfig(flagValues(command));
  const { config } = loaded;
  const { writeConfigTo, cleanup, initOnly } = config.actions;
  if (writeConfigTo !== undefined) {
    writeFileSync(writeConfigTo, configText(config));
    say(`configuration written to ${writeConfigTo}`);
    return;
  }
  if (cleanup) {
    const { cleanupInstance } = await import('./cleanup.ts');
    await cleanupInstance({ ...config.own, dryRun: false });
    return;
  }
  const log = createLogger(config.log.level, config.log.format);
  for (const { location, field, reason } of config.warnings) {
    log.warn({ location, field, reason }, 'setting ignored or remapped');
  }
  if (initOnly) {
    applyKernelSettings(config, log);
    return;
  }
  await serve(loaded, log);
}

async function serve(loaded: LoadedConfig, log: Logger): Promise<void> {
  const { config, file } = loaded;
  const chosen = chooseEngine(config);
  if (config.source.kind === 'api' && isInitialNamespace()) applyKernelSettings(config, log);
  const settings = await settingsOf(loaded, chosen, log);
  await warnOfOthers({ ...config, engine: chosen.engine }, log);
  if (chosen.engine === 'bpf') warnOfKubeProxy(config, log);
  const { isEphemeral } = config.own;
  const paths = { bpfRoot: resolve(config.own.bpfRoot), runDir: settings.runDir };
  // At the exit nothing can be loaded any more.
  const removal = isEphemeral ? await import('../remove-instance.ts') : undefined;
  // Before anything is attached: a start that is ended halfway would leave it behind.
  const onSignal = catchSignals(['SIGTERM', 'SIGINT', ...(isEphemeral ? ['SIGHUP' as const] : [])]);
  const instance =
    removal === undefined
      ? await startInstance(settings, log)
      : await startOrRemove(settings, () => void removal.removeInstance(paths), log);
  const watch =
    file === undefined
      ? undefined
      : watchConfigFile(file.path, file.text, (text) => {
          log.warn({ file: file.path }, 'configuration changed, restart the agent to use it');
          instance.configWritten({ path: file.path, isChanged: text !== file.text });
        });
  const stop = (signal: string): void => {
    watch?.close();
    instance.stop();
    if (!isEphemeral) log.info({ signal }, 'stopped, traffic keeps flowing');
    process.exit(0);
  };
  if (removal !== undefined) {
    // Also runs after an uncaught error.
    process.once('exit', () => {
      instance.stop();
      log.info(
        { removed: removal.partsText(removal.removeInstance(paths)) },
        'stopped and removed',
      );
    });
  }
  onSignal(stop);
}

/** A start that fails after the hooks were attached, as when a port is taken, removes them; a refused one nothing. */
async function startOrRemove(
  settings: InstanceSettings,
  remove: () => void,
  log: Logger,
): Promise<Instance> {
  let isAttached = false;
  const openDataplane: OpenDataplane = async (network) => {
    const dataplane = await settings.openDataplane(network);
    isAttached = true;
    return dataplane;
  };
  try {
    return await startInstance({ ...settings, openDataplane }, log);
  } catch (error) {
    if (isAttached) remove();
    throw error;
  }
}

/** Before anything is attached. */
async function warnOfOthers({ source, own, engine }: Config, log: Logger): Promise<void> {
  const isIptables = engine === 'iptables';
  const readsRules = !isIptables && mayHaveProxyRules();
  const found = [
    ...(source.kind === 'manifests' ? await findOtherProxies({ readsRules }) : []),
    ...(isIptables
      ? []
      : findOtherInstances(resolve(own.bpfRoot), checkCgroupRoot(rootOf(own)).path)),
  ];
  if (found.length === 0) return;
  const effect = 'on an address that both serve, the Services of this instance take precedence';
  const advice = own.isEphemeral
    ? 'stop the agent to undo it'
    : 'to undo it, stop the agent and run `fairlead cleanup`; with --ephemeral, stopping is enough';
  log.warn({ found, effect, advice }, 'this node has a kubelet or another service proxy');
}

/**
 * Beside kube-proxy on the same API server nothing breaks, and with --devices none it serves all packets. Listing its
 * rules may take seconds, for which a start does not wait.
 */
function warnOfKubeProxy(config: Config, log: Logger): void {
  findAndWarn(config, log).catch((err: unknown) => {
    log.warn({ err }, 'cannot tell whether kube-proxy serves this node, too');
  });
}

async function findAndWarn({ source, own, engine }: Config, log: Logger): Promise<void> {
  const isIptables = engine === 'iptables';
  if (source.kind === 'manifests' || (own.devices.includes('none') && !isIptables)) return;
  const found = await findKubeProxy({ readsRules: !isIptables && mayHaveProxyRules() });
  if (found.length === 0) return;
  if (isIptables) {
    const effect = 'both write the same iptables rules, and each undoes what the other has written';
    log.warn({ found, effect, advice: 'stop kube-proxy' }, 'kube-proxy serves this node, too');
    return;
  }
  const effect = 'this agent translates packets first, so that the rules of kube-proxy match none';
  const advice =
    'remove kube-proxy, then its rules with `fairlead cleanup --kube-proxy`; or leave packets to it with --devices none';
  log.warn({ found, effect, advice }, 'kube-proxy serves this node, too');
}

/** Also if bpf was tried first. */
function beforeRules(config: Config, log: Logger): void {
  const byRules = { ...config, engine: 'iptables' as const };
  if (needsRouteLocalnet(byRules)) logSettings(applySysctls([ROUTE_LOCALNET]), log);
  warnOfKubeProxy(byRules, log);
}

const rootOf = ({ cgroupRoot }: Config['own']): string | undefined =>
  cgroupRoot === undefined ? undefined : resolve(cgroupRoot);

async function settingsOf(
  loaded: LoadedConfig,
  chosen: ChosenEngine,
  log: Logger,
): Promise<InstanceSettings> {
  const { config, flags } = loaded;
  const { own, servers } = config;
  return {
    plan: config.plan,
    source: await sourceOf(loaded, log),
    predecessors: allEngines(resolve(own.bpfRoot), {
      command: 'agent',
      nodeName: config.plan.nodeName,
      runDir: resolve(own.runDir),
    }),
    openDataplane: dataplaneOf(
      {
        cgroupRoot: rootOf(own),
        bpfRoot: resolve(own.bpfRoot),
        runDir: resolve(own.runDir),
        nodeName: config.plan.nodeName,
        mapSizes: own.mapSizes,
        resetsTcp: own.resetsTcp,
        answersPing: own.answersPing,
        devices: deviceSettings(config),
        ...chosen,
        asked: config.engine,
        beforeRules: () => beforeRules(config, log),
        iptables: {
          masqueradeBit: config.netfilter.masqueradeBit,
          hasLocalhostNodePorts: config.netfilter.localhostNodePorts,
          minSyncPeriodMs: config.netfilter.minSyncPeriodMs,
          syncPeriodMs: config.syncPeriodMs,
        },
        protectsNodePorts: own.protectsNodePorts,
      },
      log,
    ),
    runDir: resolve(own.runDir),
    auditIntervalMs: own.auditIntervalMs,
    metricsTopServices: own.metricsTopServices,
    servers: {
      nodeName: config.plan.nodeName,
      ...servers,
      syncPeriodMs: config.syncPeriodMs,
      configz: () => configz(config),
      flagz: () => flagz(flags),
    },
  };
}

async function sourceOf({ config, file }: LoadedConfig, log: Logger): Promise<Source> {
  const { source, plan, own } = config;
  if (source.kind === 'manifests') return manifestsSource(manifestsDir(source.dir));
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
  return clusterSource({
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

function applyKernelSettings(config: Config, log: Logger): void {
  const writes = [
    ...sysctlWrites(config.conntrack, countCpus(), false),
    oomScoreWrite(config.oomScoreAdj),
  ];
  logSettings(applySysctls(writes), log);
}

function logSettings(results: readonly SysctlResult[], log: Logger): void {
  for (const result of results) {
    const isFine = result.outcome === 'written' || result.outcome === 'kept';
    // In a container the kubelet sets the OOM score; kube-proxy does not warn about it either.
    const isOwn = result.path === OOM_SCORE_PATH;
    log[isFine || isOwn ? 'info' : 'warn']({ ...result }, 'kernel setting');
  }
}
