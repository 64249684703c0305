// SPDX-License-Identifier: Apache-2.0
// `fairlead run`: the agent. Exits on SIGTERM or SIGINT within a second. The programmed state is kept and serves
// traffic, unless --ephemeral removes it.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { watchConfigFile, watchedFile } from '../../config/file/watch.ts';
import { configText, configz } from '../../config/file/write.ts';
import type { FlagValues } from '../../config/flags/flags.ts';
import { flagz } from '../../config/flags/flagz.ts';
import { historyDir } from '../../config/instance-paths.ts';
import { type LoadedConfig, loadConfig } from '../../config/load.ts';
import {
  needsRouteLocalnet,
  OOM_SCORE_PATH,
  oomScoreWrite,
  ROUTE_LOCALNET,
  sysctlWrites,
} from '../../config/sysctls.ts';
import type { Config } from '../../config/types.ts';
import type { InstanceSettings, OpenDataplane } from '../../instance/compose.ts';
import { dataplaneOf, programsBelow } from '../../instance/dataplanes.ts';
import { type Instance, type InstanceOptions, startInstance } from '../../instance/instance.ts';
import { checkCgroupRoot } from '../../instance/preflight/checks.ts';
import { findOtherInstances } from '../../instance/preflight/other-instances.ts';
import {
  findKubeProxy,
  findOtherProxies,
  isInitialNamespace,
  mayHaveProxyRules,
} from '../../instance/preflight/other-proxies.ts';
import {
  applySysctls,
  countCpus,
  type SysctlResult,
  settingProblem,
} from '../../instance/preflight/sysctls.ts';
import { checkRecord, readRecord, removeRecord } from '../../instance/shadow/record.ts';
import { createLogger, type Logger } from '../../log.ts';
import type { Problem } from '../../model/problem.ts';
import { forgetStart } from '../../sys/process/memory.ts';
import { addAllFlags, flagValues } from '../config-flags.ts';
import { deviceSettings } from '../device-settings.ts';
import { type ChosenEngine, chooseEngine, predecessorsOf } from '../engine.ts';
import { say } from '../output.ts';
import { createReadyFile } from '../ready-file.ts';
import { StopSignals } from '../signals.ts';
import { sourceOf } from '../source.ts';

/** @param signals those that have ended the process until now; to list flags none are needed */
export function runCommand(signals = new StopSignals()): Command {
  return addAllFlags(
    new Command('run').description(
      "run the agent, which keeps the kernel in sync with the cluster's Services (accepts kube-proxy's flags and configuration file)",
    ),
  ).action((_options: unknown, command: Command) => run(command, signals));
}

async function run(command: Command, signals: StopSignals): Promise<void> {
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
  await serve(loaded, log, signals);
}

async function serve(loaded: LoadedConfig, log: Logger, signals: StopSignals): Promise<void> {
  const { config, file } = loaded;
  const chosen = chooseEngine(config);
  const { engine } = chosen;
  // Those of the rules come later, when it is known that they serve.
  const warnings: Problem[] = [];
  if (engine !== 'shadow') {
    checkShadow(config, log);
    if (config.source.kind === 'api' && isInitialNamespace()) {
      warnings.push(...applyKernelSettings(config, log));
    }
  }
  const settings = await settingsOf(loaded, chosen, { log, warnings });
  if (engine !== 'userspace' && engine !== 'shadow') await warnOfOthers({ ...config, engine }, log);
  if (engine === 'bpf') warnOfKubeProxy(config, log);
  const { isEphemeral } = config.own;
  const paths = { bpfRoot: resolve(config.own.bpfRoot), runDir: settings.runDir };
  // At the exit nothing can be loaded any more.
  const removal = isEphemeral ? await import('../remove-instance.ts') : undefined;
  const readyFile = createReadyFile(config.own.readyFile, log);
  const options: InstanceOptions = {
    takesOverAs: takesOverAs(config, chosen),
    // Before anything is attached: a start that is ended halfway would leave it behind.
    beforeLocks: () => signals.hold(isEphemeral ? ['SIGHUP'] : []),
    onServing: () => {
      forgetStart();
      readyFile.write();
      if (engine !== 'shadow') removeRecord(settings.runDir);
    },
  };
  forgetStart();
  const instance =
    removal === undefined
      ? await startInstance(settings, log, options)
      : await startOrRemove(settings, options, () => void removal.removeInstance(paths), log);
  const watch =
    file === undefined
      ? undefined
      : watchConfigFile(file.path, file.text, (text) => {
          log.warn({ file: file.path }, 'configuration changed, restart the agent to use it');
          instance.configWritten({ path: file.path, isChanged: text !== file.text });
        });
  const end = (signal: string): void => {
    watch?.close();
    instance.stop();
    readyFile.remove();
    if (!isEphemeral || instance.isHandedOver())
      log.info({ signal }, stopText(chosen, instance.isHandedOver()));
    if (instance.isHandedOver()) void instance.answered().then(() => process.exit(0));
    else process.exit(0);
  };
  const stop = (signal: string): void => {
    const drained = instance.drain();
    if (drained === undefined) end(signal);
    else void drained.then(() => end(signal));
  };
  if (removal !== undefined) {
    // Also runs after an uncaught error.
    process.once('exit', () => {
      instance.stop();
      if (instance.isHandedOver()) return;
      log.info(
        { removed: removal.partsText(removal.removeInstance(paths)) },
        'stopped and removed',
      );
    });
  }
  signals.stopWith(stop);
  await instance.failed;
}

const stopText = ({ engine }: ChosenEngine, isHandedOver: boolean): string =>
  engine === 'userspace' && !isHandedOver
    ? 'stopped, and with it the connections that it relayed'
    : 'stopped, traffic keeps flowing';

/** Throws SHADOW_DIFFERS. */
function checkShadow({ own }: Config, log: Logger): void {
  const record = readRecord(resolve(own.runDir));
  const found = checkRecord(record, own.switchesAnyway);
  if (found !== undefined) log.warn({ differing: record?.differing }, found);
}

/** What an agent that runs must have in common with this one, if --take-over is given. */
function takesOverAs({ own }: Config, { engine }: ChosenEngine): InstanceOptions['takesOverAs'] {
  if (!own.takesOver) return undefined;
  const cgroupRoot = engine === 'bpf' ? checkCgroupRoot(rootOf(own)).path : undefined;
  return { bpfRoot: resolve(own.bpfRoot), cgroupRoot, engine };
}

/**
 * A start that fails after the hooks were attached, as when a port is taken, removes them; a refused one nothing, nor does one
 * in place of an agent that resumes then.
 */
async function startOrRemove(
  settings: InstanceSettings,
  options: InstanceOptions,
  remove: () => void,
  log: Logger,
): Promise<Instance> {
  let isAttached = false;
  let isAlone = true;
  const openDataplane: OpenDataplane = async (network) => {
    const dataplane = await settings.openDataplane(network);
    isAttached = true;
    return dataplane;
  };
  const beforeLocks = (isTakeOver: boolean): void => {
    isAlone = !isTakeOver;
    options.beforeLocks?.(isTakeOver);
  };
  try {
    return await startInstance({ ...settings, openDataplane }, log, { ...options, beforeLocks });
  } catch (error) {
    if (isAttached && isAlone) remove();
    throw error;
  }
}

/** Before anything is attached. */
async function warnOfOthers({ source, own, engine }: Config, log: Logger): Promise<void> {
  const readsRules = engine !== 'iptables' && mayHaveProxyRules();
  const found = [
    ...(source.kind === 'manifests' ? await findOtherProxies({ readsRules }) : []),
    ...(engine === 'iptables' || engine === 'nftables'
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
  const isByRules = isIptables || engine === 'nftables';
  if (source.kind === 'manifests' || (own.devices.includes('none') && !isByRules)) return;
  const found = await findKubeProxy({ readsRules: !isIptables && mayHaveProxyRules() });
  if (found.length === 0) return;
  if (isIptables) {
    const effect = 'both write the same iptables rules, and each undoes what the other has written';
    log.warn({ found, effect, advice: 'stop kube-proxy' }, 'kube-proxy serves this node, too');
    return;
  }
  if (isByRules) {
    // The kernel asks chains of the same priority in this order.
    const effect = 'whichever has made its chains last translates packets';
    const advice = 'stop kube-proxy, then remove its rules with `fairlead cleanup --kube-proxy`';
    log.warn({ found, effect, advice }, 'kube-proxy serves this node, too');
    return;
  }
  const effect = 'this agent translates packets first, so that the rules of kube-proxy match none';
  const advice =
    'remove kube-proxy, then its rules with `fairlead cleanup --kube-proxy`; or leave packets to it with --devices none';
  log.warn({ found, effect, advice }, 'kube-proxy serves this node, too');
}

interface StartContext {
  readonly log: Logger;
  /** Shown by `status`. */
  readonly warnings: Problem[];
}

/** Also if bpf was tried first. */
function beforeRules(byRules: Config, { log, warnings }: StartContext, isStart: boolean): void {
  if (needsRouteLocalnet(byRules)) {
    warnings.push(...logSettings(applySysctls([ROUTE_LOCALNET]), log));
  }
  if (isStart) warnOfKubeProxy(byRules, log);
}

/** Rules serve all packets already, or somebody else does. */
function hostRulesOf(
  { own, engine, syncPeriodMs }: Config,
  { engine: chosen }: ChosenEngine,
): InstanceSettings['hostRules'] {
  if (chosen !== 'bpf' || own.devices.includes('none') || own.hostFirewall === 'ignore') {
    return undefined;
  }
  const isByKind = own.devices.every((name) => name === 'auto');
  return { mayMove: engine === 'auto' && isByKind, periodMs: syncPeriodMs };
}

/** An agent with --shadow programs nothing, and one with --ephemeral leaves nothing. */
const historyOf = ({ own }: Config): InstanceSettings['history'] =>
  own.history.maxMiB === 0 || own.shadow !== undefined || own.isEphemeral
    ? undefined
    : {
        dir: resolve(own.history.dir ?? historyDir(resolve(own.runDir))),
        isNamed: own.history.dir !== undefined,
        maxBytes: own.history.maxMiB * 2 ** 20,
      };

const rootOf = ({ cgroupRoot }: Config['own']): string | undefined =>
  cgroupRoot === undefined ? undefined : resolve(cgroupRoot);

async function settingsOf(
  loaded: LoadedConfig,
  chosen: ChosenEngine,
  { log, warnings }: StartContext,
): Promise<InstanceSettings> {
  const { config, flags } = loaded;
  const { own, servers } = config;
  return {
    plan: config.plan,
    warnings,
    openSource: await sourceOf(loaded, log),
    ...(own.shadow === undefined && { bpfRoot: resolve(own.bpfRoot) }),
    flags: withWholePaths(flags),
    predecessors: predecessorsOf(config, chosen),
    openDataplane: dataplaneOf(
      {
        cgroupRoot: rootOf(own),
        bpfRoot: resolve(own.bpfRoot),
        runDir: resolve(own.runDir),
        nodeName: config.plan.nodeName,
        mapSizes: own.mapSizes,
        resetsTcp: own.resetsTcp,
        answersPing: own.answersPing,
        conntrack: config.conntrack,
        devices: deviceSettings(config),
        ...chosen,
        asked: config.engine,
        beforeRules: (isStart, engine) =>
          beforeRules({ ...config, engine }, { log, warnings }, isStart),
        rules: {
          masqueradeBit: config.netfilter.masqueradeBit,
          hasLocalhostNodePorts: config.netfilter.localhostNodePorts,
          minSyncPeriodMs: config.netfilter.minSyncPeriodMs,
          syncPeriodMs: config.syncPeriodMs,
          offload: own.nftablesOffload,
        },
        protectsNodePorts: own.protectsNodePorts,
        secretFile:
          own.directReturnSecretFile === undefined
            ? undefined
            : watchedFile(resolve(own.directReturnSecretFile)),
        socketScope: own.socketScope,
      },
      log,
    ),
    runDir: resolve(own.runDir),
    auditIntervalMs: own.auditIntervalMs,
    metricsTopServices: own.metricsTopServices,
    hostRules: hostRulesOf(config, chosen),
    shadow: own.shadow,
    history: historyOf(config),
    onNode: {
      cniFolder: resolve(own.cniConfDir),
      ownPrograms: () => programsBelow(resolve(own.bpfRoot)),
      masqueradeBit: config.netfilter.masqueradeBit,
    },
    servers: {
      nodeName: config.plan.nodeName,
      ...servers,
      syncPeriodMs: config.syncPeriodMs,
      configz: () => configz(config),
      flagz: () => flagz(flags),
    },
  };
}

/** A command that reads them may have another working directory. */
const withWholePaths = (flags: FlagValues): FlagValues =>
  Object.fromEntries(
    Object.entries(flags).map(([name, value]) => [
      name,
      ['config', 'manifests', 'kubeconfig'].includes(name) && value !== '' ? resolve(value) : value,
    ]),
  );

function applyKernelSettings(config: Config, log: Logger): readonly Problem[] {
  const writes = [
    ...sysctlWrites(config.conntrack, countCpus(), false),
    oomScoreWrite(config.oomScoreAdj),
  ];
  return logSettings(applySysctls(writes), log);
}

/** @returns what `status` shows until the next start */
function logSettings(results: readonly SysctlResult[], log: Logger): readonly Problem[] {
  return results.flatMap((result) => {
    const isFine = result.outcome === 'written' || result.outcome === 'kept';
    // In a container the kubelet sets the OOM score; kube-proxy does not warn about it either.
    const isOwn = result.path === OOM_SCORE_PATH;
    log[isFine || isOwn ? 'info' : 'warn']({ ...result }, 'kernel setting');
    return isFine || isOwn ? [] : [settingProblem(result)];
  });
}
