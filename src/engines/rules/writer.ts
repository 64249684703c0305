// SPDX-License-Identifier: Apache-2.0
// Writes the rules of a plan. A Service of which the kernel refuses a rule keeps the rules that it had, so that all others
// are written.
import { FairleadError } from '../../errors.ts';
import type { Family } from '../../model/types.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../plan/types.ts';
import type { FailedEntry } from '../dataplane.ts';
import type { Entry } from '../entry.ts';

/** What was different in one family. */
export interface Written {
  readonly family: Family;
  /** What somebody else has changed, in an audit. */
  readonly drift: readonly Entry[];
  /** How many chains or elements were different. */
  readonly changes: number;
}

export interface Outcome {
  readonly written: readonly Written[];
  readonly failed: readonly FailedEntry[];
}

/** `audit`: all, and what others have changed is found out. */
export type Extent = 'audit' | 'all' | Iterable<ServiceKey>;

export interface WritingParts {
  /** @param isRetry a rule was refused before @param isUntouched as of RulesParts.write */
  writeAll(
    plan: Plan,
    extent: Extent,
    isRetry: boolean,
    isUntouched: boolean,
  ): Promise<readonly Written[]>;
  /** The Service of which something is refused; undefined: not known. */
  ownerOf(error: unknown, plan: Plan): ServiceKey | undefined;
}

export interface Writer {
  /** Throws RESTORE_FAILED if it is not known whose rule is refused, or many are. */
  write(plan: Plan, extent: Extent, isUntouched: boolean): Promise<Outcome>;
}

export const createRulesWriter = (parts: WritingParts): Writer => new RulesWriter(parts);

/** Each costs a transaction that fails. */
const MAX_REFUSED = 10;

class RulesWriter implements Writer {
  readonly #parts: WritingParts;
  /** Of Services that keep the rules that they had. */
  readonly #refused = new Map<ServiceKey, string>();
  /** As they were written last. */
  #services: ReadonlyMap<ServiceKey, ServicePlan> = new Map();

  constructor(parts: WritingParts) {
    this.#parts = parts;
  }

  async write(plan: Plan, extent: Extent, isUntouched: boolean): Promise<Outcome> {
    const isRetry = this.#forgetRefused(extent);
    for (;;) {
      try {
        const written = await this.#writeAll(plan, extent, isRetry, isUntouched);
        return { written, failed: this.#failed(plan) };
      } catch (error) {
        const owner = this.#parts.ownerOf(error, plan);
        const isNew = owner !== undefined && !this.#refused.has(owner);
        if (!isNew || this.#refused.size >= MAX_REFUSED) throw error;
        this.#refused.set(owner, error instanceof FairleadError ? error.message : String(error));
      }
    }
  }

  /** True if one of them was refused before. */
  #forgetRefused(extent: Extent): boolean {
    const before = this.#refused.size;
    if (typeof extent === 'string') this.#refused.clear();
    else for (const key of extent) this.#refused.delete(key);
    return this.#refused.size < before;
  }

  async #writeAll(
    plan: Plan,
    ...how: readonly [extent: Extent, isRetry: boolean, isUntouched: boolean]
  ): Promise<readonly Written[]> {
    const services = this.#writable(plan);
    const written = await this.#parts.writeAll({ ...plan, services }, ...how);
    this.#services = services;
    return written;
  }

  /** Those that are refused as they were before. */
  #writable({ services }: Plan): ReadonlyMap<ServiceKey, ServicePlan> {
    if (this.#refused.size === 0) return services;
    return new Map(
      [...services].flatMap(([key, service]) => {
        const writable = this.#refused.has(key) ? this.#services.get(key) : service;
        return writable === undefined ? [] : [[key, writable]];
      }),
    );
  }

  #failed({ services }: Plan): readonly FailedEntry[] {
    return [...this.#refused].flatMap(([key, reason]): readonly FailedEntry[] => {
      const port = services.get(key)?.ports[0]?.key;
      if (port === undefined) return [];
      const id = { kind: 'service-port', port } as const;
      return [{ id, text: `rules of ${key}`, code: 'WRITE_FAILED', reason, service: key }];
    });
  }
}
