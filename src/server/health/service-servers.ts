// SPDX-License-Identifier: Apache-2.0
// The healthCheckNodePort servers, reconciled with the plan after each successful sync. A Service binds all
// of its addresses or none; what failed is retried at the next sync, as in kube-proxy (service_health.go), and every 30 s,
// because that may be long.
import { reasonOf } from '../../errors.ts';
import type { HealthCheck, Plan, ServiceKey } from '../../plan/types.ts';
import { type Listen, type Listener, listenOnce } from '../http/listen.ts';
import { send } from '../http/response.ts';
import { later, type Schedule } from '../http/retry-listen.ts';
import { type BindAddress, bindAddressesOf, serviceHealthResponse } from './service-response.ts';

/** kube-proxy's default syncPeriod, after which its IPVS mode retries. */
const RETRY_MS = 30_000;

export interface ServiceHealthFailure {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** Names address and reason. */
  readonly reason: string;
  /** The last try has failed for the same reason. */
  readonly isRepeated: boolean;
}

export interface ServiceHealthParts {
  readonly isProxyHealthy: () => boolean;
  /** Canonical addresses of this node's interfaces; may throw. */
  readonly localAddresses: () => readonly string[];
  readonly onFailure: (failure: ServiceHealthFailure) => void;
  /** It is served after a failure. */
  readonly onRecovery: (service: Omit<ServiceHealthFailure, 'reason' | 'isRepeated'>) => void;
}

interface Desired {
  readonly namespace: string;
  readonly name: string;
  readonly healthCheck: HealthCheck;
  readonly addresses: readonly BindAddress[];
}

interface Open {
  /** Port and addresses: a change of these requires a new bind. */
  readonly identity: string;
  readonly listeners: readonly Listener[];
  facts: Desired;
}

export function createServiceHealthServers(
  parts: ServiceHealthParts,
  listen: Listen = listenOnce,
  schedule: Schedule = later,
): ServiceHealthServers {
  return new ServiceHealthServers(parts, listen, schedule);
}

export class ServiceHealthServers {
  readonly #parts: ServiceHealthParts;
  readonly #listen: Listen;
  readonly #schedule: Schedule;
  readonly #open = new Map<ServiceKey, Open>();
  /** Services with a health check port: few, in a plan of thousands. */
  readonly #checked = new Set<ServiceKey>();
  #lastSync: Promise<void> = Promise.resolve();
  #isClosed = false;
  /** Why the last try of each that is not open has failed. */
  #refusals: ReadonlyMap<ServiceKey, string> = new Map();
  #cancelRetry: () => void = () => undefined;

  constructor(parts: ServiceHealthParts, listen: Listen, schedule: Schedule) {
    this.#parts = parts;
    this.#listen = listen;
    this.#schedule = schedule;
  }

  /**
   * To be called after each successful sync; resolves when every port of the plan is open or has failed.
   * @param changed Services that may have changed since the last call; others are not checked
   */
  sync(
    plan: Pick<Plan, 'services' | 'nodePortAddresses'>,
    changed: Iterable<ServiceKey>,
  ): Promise<void> {
    for (const key of changed) {
      if (plan.services.get(key)?.healthCheck === undefined) this.#checked.delete(key);
      else this.#checked.add(key);
    }
    this.#cancelRetry();
    return this.#enqueue(() => this.#follow(this.#desired(plan)));
  }

  /** Resolves as the last `sync` does. */
  synced(): Promise<void> {
    return this.#lastSync;
  }

  /** Ports being served, by Service. */
  open(): ReadonlyMap<ServiceKey, number> {
    return new Map([...this.#open].map(([key, { facts }]) => [key, facts.healthCheck.port]));
  }

  /** Idempotent. */
  close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelRetry();
    return this.#enqueue(() => this.#reconcile(new Map()));
  }

  /** One after the other, so that two never bind the same port; one that fails does not end the next ones. */
  #enqueue(work: () => Promise<void>): Promise<void> {
    this.#lastSync = this.#lastSync.catch(() => undefined).then(work);
    return this.#lastSync;
  }

  async #follow(desired: ReadonlyMap<ServiceKey, Desired>): Promise<void> {
    try {
      await this.#reconcile(desired);
    } finally {
      // That of a sync which ended after this one was asked for.
      this.#cancelRetry();
      // Of the same sync: what the plan has by then may not be programmed.
      const retry = (): void => void this.#enqueue(() => this.#follow(desired)).catch(() => {});
      const isRetried = this.#refusals.size > 0 && !this.#isClosed;
      if (isRetried) this.#cancelRetry = this.#schedule(retry, RETRY_MS);
    }
  }

  #desired({ services, nodePortAddresses }: Pick<Plan, 'services' | 'nodePortAddresses'>) {
    const desired = new Map<ServiceKey, Desired>();
    let local: readonly string[] | undefined;
    for (const key of this.#checked) {
      const service = services.get(key);
      if (service?.healthCheck === undefined) continue;
      const { namespace, name, healthCheck } = service;
      if (desired.size === 0) local = this.#localAddresses();
      const addresses = bindAddressesOf(healthCheck, nodePortAddresses, local);
      desired.set(key, { namespace, name, healthCheck, addresses });
    }
    return desired;
  }

  #localAddresses(): readonly string[] | undefined {
    try {
      return this.#parts.localAddresses();
    } catch {
      return undefined;
    }
  }

  async #reconcile(all: ReadonlyMap<ServiceKey, Desired>): Promise<void> {
    const desired = this.#isClosed ? new Map<ServiceKey, Desired>() : all;
    // Removals first: another Service may reuse the port.
    const leaving = [...this.#open].filter(([key, { identity }]) => {
      const next = desired.get(key);
      return next === undefined || identityOf(next) !== identity;
    });
    for (const [key] of leaving) this.#open.delete(key);
    await Promise.all(leaving.map(([, { listeners }]) => closeAll(listeners)));
    const refusals = new Map<ServiceKey, string>();
    for (const [key, next] of desired) {
      const held = this.#open.get(key);
      if (held !== undefined) held.facts = next;
      const refusal = held === undefined ? await this.#tryOpen(key, next) : undefined;
      if (refusal !== undefined) refusals.set(key, refusal);
      else if (this.#refusals.has(key)) this.#noteRecovery(next);
    }
    this.#refusals = refusals;
  }

  #noteRecovery({ namespace, name, healthCheck }: Desired): void {
    this.#parts.onRecovery({ namespace, name, port: healthCheck.port });
  }

  /** @returns why it could not */
  async #tryOpen(key: ServiceKey, facts: Desired): Promise<string | undefined> {
    const listeners: Listener[] = [];
    const held: Open = { identity: identityOf(facts), listeners, facts };
    const { port } = facts.healthCheck;
    try {
      for (const address of facts.addresses) {
        const listener = await this.#bind(held, address, port).catch(unlessNoFamily);
        if (listener !== undefined) listeners.push(listener);
      }
      this.#open.set(key, held);
      return undefined;
    } catch (error) {
      await closeAll(listeners);
      const { namespace, name } = facts;
      const reason = reasonOf(error);
      const isRepeated = this.#refusals.get(key) === reason;
      this.#parts.onFailure({ namespace, name, port, reason, isRepeated });
      return reason;
    }
  }

  #bind(held: Open, { family, host }: BindAddress, port: number): Promise<Listener> {
    return this.#listen({
      host,
      port,
      isIpv6Only: family === 'IPv6',
      onRequest: (_request, response) => {
        const { namespace, name, healthCheck } = held.facts;
        const localEndpoints = healthCheck.localEndpoints[family];
        const isProxyHealthy = this.#parts.isProxyHealthy();
        send(response, serviceHealthResponse({ namespace, name, localEndpoints, isProxyHealthy }));
      },
    });
  }
}

/** A kernel without IPv6 serves IPv4 only, as kube-proxy does. Other bind errors are failures. */
function unlessNoFamily(error: unknown): undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && 'code' in cause && cause.code === 'EAFNOSUPPORT') return undefined;
  throw error;
}

const identityOf = ({ healthCheck, addresses }: Desired): string =>
  [healthCheck.port, ...addresses.map(({ host }) => host)].join();

async function closeAll(listeners: readonly Listener[]): Promise<void> {
  await Promise.all(listeners.map((listener) => listener.close()));
}
