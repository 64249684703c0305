// SPDX-License-Identifier: Apache-2.0
// Writes the rules of a plan, all families at once. A Service of which the kernel refuses a rule keeps the rules that it
// had, so that all others are written.
import { FairleadError } from '../../../errors.ts';
import type { Family } from '../../../model/types.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../../plan/types.ts';
import type { FailedEntry } from '../../dataplane.ts';
import { allOf } from '../../router/merge.ts';
import type { Ruleset } from '../rules/types.ts';
import type { ChainChange } from '../state/diff/changes.ts';
import type { WantedTable } from '../state/diff/diff.ts';
import { serviceOfLine } from '../state/diff/service-of-line.ts';
import { type PrintRuleset, rulesetPrinter } from '../state/wanted.ts';
import { type FamilyRules, RestoreError } from './family-rules.ts';

export interface WriterParts {
  readonly families: ReadonlyMap<Family, FamilyRules>;
  readonly render: (plan: Plan) => readonly Ruleset[];
}

/** What was different in one family. */
export interface Written {
  readonly family: Family;
  /** What somebody else has changed, in an audit. */
  readonly drift: readonly ChainChange[];
  /** How many chains were different. */
  readonly changes: number;
}

export interface Outcome {
  readonly written: readonly Written[];
  readonly failed: readonly FailedEntry[];
}

/** `audit`: all, and what others have changed is found out. */
export type Extent = 'audit' | 'all' | Iterable<ServiceKey>;

export const createWriter = (parts: WriterParts): Writer => new Writer(parts);

/** Each costs a restore that fails. */
const MAX_REFUSED = 10;

export class Writer {
  readonly #parts: WriterParts;
  readonly #printers: ReadonlyMap<Family, PrintRuleset>;
  /** Of Services that keep the rules that they had. */
  readonly #refused = new Map<ServiceKey, string>();
  /** As they were written last. */
  #services: ReadonlyMap<ServiceKey, ServicePlan> = new Map();

  constructor(parts: WriterParts) {
    this.#parts = parts;
    const families = [...parts.families.keys()];
    this.#printers = new Map(families.map((family) => [family, rulesetPrinter(family)]));
  }

  /** Throws RESTORE_FAILED if it is not known whose rule is refused, or many are. */
  async write(plan: Plan, extent: Extent): Promise<Outcome> {
    const isRetry = this.#forgetRefused(extent);
    for (;;) {
      try {
        const written = await this.#writeAll(plan, extent, isRetry);
        return { written, failed: this.#failed(plan) };
      } catch (error) {
        const owner = error instanceof RestoreError ? serviceOfLine(error.line, plan) : undefined;
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

  async #writeAll(plan: Plan, extent: Extent, isRetry: boolean): Promise<readonly Written[]> {
    const services = this.#writable(plan);
    const wanted = this.#wanted({ ...plan, services });
    const isFull = typeof extent === 'string';
    const changes = await allOf(wanted, async ([family, tables]) => {
      const rules = this.#parts.families.get(family);
      if (rules === undefined) return 0;
      if (extent === 'audit') return rules.audit(tables, isRetry);
      return rules.write(tables, { isFull, isRetry });
    });
    this.#services = services;
    return wanted.map(([family], index) => ({
      ...{ family, changes: changes[index] ?? 0 },
      drift: (extent === 'audit' ? this.#parts.families.get(family)?.takeDrift() : undefined) ?? [],
    }));
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

  #wanted(plan: Plan): readonly (readonly [Family, readonly WantedTable[]])[] {
    return this.#parts.render(plan).flatMap((ruleset) => {
      const print = this.#printers.get(ruleset.family);
      return print === undefined ? [] : [[ruleset.family, print(ruleset)] as const];
    });
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
