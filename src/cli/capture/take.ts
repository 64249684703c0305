// SPDX-License-Identifier: Apache-2.0
// Reads all that a capture has. Each part by itself, in parallel and for a limited time: an agent that hangs, or a program that
// is not there, is a reason in the file.
import { release } from 'node:os';
import { resolve } from 'node:path';
import {
  type AgentParts,
  type Capture,
  type CapturedPart,
  FORMAT,
  partsOf,
  type Unread,
} from '../../capture/format.ts';
import { plainOf } from '../../capture/plain.ts';
import type { LoadedConfig } from '../../config/load.ts';
import { reasonOf } from '../../errors.ts';
import { programmedBelow } from '../../instance/dataplanes.ts';
import type { Logger } from '../../log.ts';
import { createPlanner } from '../../plan/planner.ts';
import { askAgent } from '../../server/admin-socket.ts';
import { packageVersion } from '../../sys/package.ts';
import { readObjects } from '../compare/objects.ts';
import { composed } from '../composed.ts';
import { deviceSettings } from '../device-settings.ts';
import { ownAddresses } from '../own-addresses.ts';
import { probed, readMetrics, readNetwork, readRules } from './node-parts.ts';
import { prunedObjects } from './objects.ts';

export interface TakeOptions {
  readonly timeoutMs: number;
  readonly log: Logger;
  readonly isProbing: boolean;
}

type TryRead = <T>(what: string, read: () => Promise<T> | T) => Promise<T | undefined>;

export async function takeCapture(
  loaded: LoadedConfig,
  { timeoutMs, log, isProbing }: TakeOptions,
): Promise<Capture> {
  const { config, flags } = loaded;
  const runDir = resolve(config.own.runDir);
  const unread: Unread[] = [];
  const attempt: TryRead = async (what, read) => {
    try {
      return await within(read, timeoutMs);
    } catch (error) {
      unread.push({ what, reason: reasonOf(error) });
      return undefined;
    }
  };
  const printed = { timeoutMs, unread };
  const [status, agent, objects, rules, network, metrics, probe] = await Promise.all([
    attempt('status', () => askAgent(runDir, '/v1/status', timeoutMs)),
    attempt('agent', async () =>
      partsOf((await askAgent(runDir, '/v1/capture', timeoutMs)) as readonly CapturedPart[]),
    ),
    attempt('objects', async () => prunedObjects(await readObjects(loaded, log, timeoutMs))),
    readRules(printed),
    readNetwork(printed),
    attempt('metrics', () => readMetrics(config.servers.metrics, timeoutMs)),
    isProbing ? attempt('probe', () => probed(timeoutMs)) : undefined,
  ]);
  const known: Partial<AgentParts> = agent ?? {};
  const planned = async (): Promise<Pick<Capture, 'plan' | 'planOf'>> => {
    if (known.plan !== undefined) return { plan: known.plan, planOf: 'agent' };
    if (objects === undefined) return {};
    const changes = objects.map((one) => ({ type: 'put', ...one }) as const);
    return { plan: plainOf(createPlanner(config.plan).apply(changes)), planOf: 'objects' };
  };
  const programmed =
    agent?.programmed ??
    (await attempt('programmed', () => programmedBelow(resolve(config.own.bpfRoot))));
  const ownDataplanes = composed({ engine: config.engine, devices: deviceSettings(config) });
  return {
    ...{ apiVersion: 'fairlead.io/v1', kind: 'Capture', format: FORMAT },
    takenAt: new Date().toISOString(),
    ...{ version: packageVersion(), kernel: release(), node: config.plan.nodeName },
    isRedacted: false,
    settings: { plan: config.plan, engine: config.engine, flags },
    ...(objects && { objects }),
    ...(await planned()),
    dataplanes: known.dataplanes ?? ownDataplanes,
    ...(programmed && { programmed }),
    addresses: known.addresses ?? (await attempt('addresses', ownAddresses)) ?? [],
    ...(known.findings && { findings: known.findings }),
    ...(status !== undefined && { status }),
    ...{ rules, network },
    ...(probe !== undefined && { probe }),
    ...(metrics !== undefined && { metrics }),
    ...(known.log && { log: known.log }),
    ...(known.events && { events: known.events }),
    unread,
  };
}

async function within<T>(read: () => Promise<T> | T, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const fail = (): void => reject(new Error(`not read within ${timeoutMs / 1000} s`));
    // What it waits for says more, if it ends by itself.
    timer = setTimeout(fail, timeoutMs + 1_000);
  });
  try {
    return await Promise.race([read(), late]);
  } finally {
    clearTimeout(timer);
  }
}
