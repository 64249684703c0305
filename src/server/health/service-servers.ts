// SPDX-License-Identifier: Apache-2.0
// The healthCheckNodePort servers, kept in step with the plan like everything else: opened, answered
// from the last successful sync, closed with their Service. A Service binds all of its addresses or
// none; what failed is tried again at the next sync (service_health.go in kube-proxy).
import { reasonOf } from '../../errors.ts';
import type { HealthCheck, Plan, ServiceKey } from '../../plan/types.ts';
import { send } from '../http/answer.ts';
import { type Listen, type Listener, listenOnce } from '../http/listen.ts';
import { type Place, placesOf, serviceHealthAnswer } from './service-answer.ts';

export interface ServiceHealthFailure {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** Names address and reason. */
  readonly reason: string;
}

export interface ServiceHealthParts {
  readonly isProxyHealthy: () => boolean;
  /** Canonical addresses of this node's interfaces; may throw. */
  readonly localAddresses: () => readonly string[];
  readonly onFailure: (failure: ServiceHealthFailure) => void;
}

export interface ServiceHealthServers {
  /**
   * To be called after each successful sync; resolves when every port is as the plan wants it, or failed.
   * @param changed Services that may have changed since the last call; others are not looked at
   */
  sync(
    plan: Pick<Plan, 'services' | 'nodePortAddresses'>,
    changed: Iterable<ServiceKey>,
  ): Promise<void>;
  /** Ports that answer now, by Service. */
  open(): ReadonlyMap<ServiceKey, number>;
  /** Idempotent. */
  close(): Promise<void>;
}

interface Wanted {
  readonly namespace: string;
  readonly name: string;
  readonly healthCheck: HealthCheck;
  readonly places: readonly Place[];
}

interface Open {
  /** Port and addresses: what cannot change without binding again. */
  readonly identity: string;
  readonly listeners: readonly Listener[];
  facts: Wanted;
}

export function createServiceHealthServers(
  parts: ServiceHealthParts,
  listen: Listen = listenOnce,
): ServiceHealthServers {
  return new Servers(parts, listen);
}

class Servers implements ServiceHealthServers {
  readonly #parts: ServiceHealthParts;
  readonly #listen: Listen;
  readonly #open = new Map<ServiceKey, Open>();
  /** Services with a health check port: few, in a plan of thousands. */
  readonly #checked = new Set<ServiceKey>();
  /** One sync after the other: two must never bind the same port. */
  #turn: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(parts: ServiceHealthParts, listen: Listen) {
    this.#parts = parts;
    this.#listen = listen;
  }

  sync(
    plan: Pick<Plan, 'services' | 'nodePortAddresses'>,
    changed: Iterable<ServiceKey>,
  ): Promise<void> {
    for (const key of changed) {
      if (plan.services.get(key)?.healthCheck === undefined) this.#checked.delete(key);
      else this.#checked.add(key);
    }
    this.#turn = this.#turn.then(() => this.#reconcile(this.#wanted(plan)));
    return this.#turn;
  }

  open(): ReadonlyMap<ServiceKey, number> {
    return new Map([...this.#open].map(([key, { facts }]) => [key, facts.healthCheck.port]));
  }

  close(): Promise<void> {
    this.#isClosed = true;
    this.#turn = this.#turn.then(() => this.#reconcile(new Map()));
    return this.#turn;
  }

  #wanted({ services, nodePortAddresses }: Pick<Plan, 'services' | 'nodePortAddresses'>) {
    const wanted = new Map<ServiceKey, Wanted>();
    let local: readonly string[] | undefined;
    for (const key of this.#checked) {
      const service = services.get(key);
      if (service?.healthCheck === undefined) continue;
      const { namespace, name, healthCheck } = service;
      if (wanted.size === 0) local = this.#localAddresses();
      const places = placesOf(healthCheck, nodePortAddresses, local);
      wanted.set(key, { namespace, name, healthCheck, places });
    }
    return wanted;
  }

  #localAddresses(): readonly string[] | undefined {
    try {
      return this.#parts.localAddresses();
    } catch {
      return undefined;
    }
  }

  async #reconcile(all: ReadonlyMap<ServiceKey, Wanted>): Promise<void> {
    const wanted = this.#isClosed ? new Map<ServiceKey, Wanted>() : all;
    // What goes, goes first: its port may be another Service's now.
    const leaving = [...this.#open].filter(([key, { identity }]) => {
      const next = wanted.get(key);
      return next === undefined || identityOf(next) !== identity;
    });
    for (const [key] of leaving) this.#open.delete(key);
    await Promise.all(leaving.map(([, { listeners }]) => closeAll(listeners)));
    for (const [key, next] of wanted) {
      const held = this.#open.get(key);
      if (held === undefined) await this.#tryOpen(key, next);
      else held.facts = next;
    }
  }

  async #tryOpen(key: ServiceKey, facts: Wanted): Promise<void> {
    const listeners: Listener[] = [];
    const held: Open = { identity: identityOf(facts), listeners, facts };
    const { port } = facts.healthCheck;
    try {
      for (const place of facts.places) {
        const listener = await this.#bind(held, place, port).catch(unlessNoFamily);
        if (listener !== undefined) listeners.push(listener);
      }
      this.#open.set(key, held);
    } catch (error) {
      await closeAll(listeners);
      const { namespace, name } = facts;
      this.#parts.onFailure({ namespace, name, port, reason: reasonOf(error) });
    }
  }

  #bind(held: Open, { family, host }: Place, port: number): Promise<Listener> {
    return this.#listen({
      host,
      port,
      isIpv6Only: family === 'IPv6',
      onRequest: (_request, response) => {
        const { namespace, name, healthCheck } = held.facts;
        const localEndpoints = healthCheck.localEndpoints[family];
        const isProxyHealthy = this.#parts.isProxyHealthy();
        send(response, serviceHealthAnswer({ namespace, name, localEndpoints, isProxyHealthy }));
      },
    });
  }
}

/** A kernel without IPv6 serves what it can: kube-proxy is single-stack there. Anything else is a failure. */
function unlessNoFamily(error: unknown): undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && 'code' in cause && cause.code === 'EAFNOSUPPORT') return undefined;
  throw error;
}

const identityOf = ({ healthCheck, places }: Wanted): string =>
  [healthCheck.port, ...places.map(({ host }) => host)].join();

async function closeAll(listeners: readonly Listener[]): Promise<void> {
  await Promise.all(listeners.map((listener) => listener.close()));
}
