// SPDX-License-Identifier: Apache-2.0
// The table of one family: reads what is held, writes what differs from what is wanted. Between full syncs it knows what is
// held from what it has written itself; after a failure it reads.
import { FairleadError } from '../../../errors.ts';
import type { Family } from '../../../model/types.ts';
import { mayHaveChain } from '../../../sys/netfilter.ts';
import type { Entry } from '../../entry.ts';
import { SERVICES, TABLE } from '../rules/names.ts';
import { parseTable } from '../rules/parse.ts';
import type { HeldTable, Ruleset, Wanted } from '../rules/types.ts';
import { applyDiff } from '../state/apply.ts';
import { diffTable, isNothing, type TableDiff } from '../state/diff.ts';
import { countChanges, driftOf } from '../state/drift.ts';
import type { Failure } from '../state/failure.ts';
import { scriptOf } from '../state/script.ts';
import { allWanted, wantedSince } from '../state/wanted.ts';
import type { Nft } from './nft.ts';

/** @see RESTORE_FAILED in errors.ts */
export class TransactionError extends FairleadError {
  /** That was refused; undefined: not known. */
  readonly line: string | undefined;

  constructor({ reason, line }: Failure) {
    super('RESTORE_FAILED', reason);
    this.line = line;
  }
}

export interface FamilyTable {
  readonly family: Family;
  /** As the kernel has it. */
  read(): Promise<HeldTable>;
  /** Writes what differs in one transaction; throws TransactionError. @returns how many chains and elements were different */
  write(ruleset: Ruleset, extent: 'audit' | 'all' | 'changes'): Promise<number>;
  /** What audits have found since it was asked last, also those that failed. */
  takeDrift(): readonly Entry[];
  /** That were committed since the start: each is one step of the kernel's generation. */
  transactions(): number;
  isAsWritten(): Promise<boolean>;
  /** False if somebody has removed the table since it was written. */
  isThere(): boolean;
}

export const familyTable = (family: Family, nft: Nft): FamilyTable => new WrittenTable(family, nft);

class WrittenTable implements FamilyTable {
  readonly family: Family;
  readonly #nft: Nft;
  /** undefined: to be read. */
  #held: HeldTable | undefined;
  /** What has made it so. */
  #written: Ruleset | undefined;
  /** Chains that nothing leads to, and that the kernel could not remove yet. */
  #left: readonly string[] = [];
  #transactions = 0;
  /** By name: what is changed again before it is reported is one difference. */
  readonly #drift = new Map<string, Entry>();

  constructor(family: Family, nft: Nft) {
    this.family = family;
    this.#nft = nft;
  }

  async read(): Promise<HeldTable> {
    return parseTable(await this.#nft.list());
  }

  async write(ruleset: Ruleset, extent: 'audit' | 'all' | 'changes'): Promise<number> {
    const [held, written] = [this.#held, this.#written];
    if (extent === 'changes' && held !== undefined && written !== undefined)
      return this.#writeOver(held, ruleset, this.#withLeft(wantedSince(written, ruleset)));
    const found = await this.read();
    // Before it is written: where that fails, nobody knows afterwards what was there.
    if (extent === 'audit' && held !== undefined) this.#noteDrift(found, held);
    return this.#writeOver(found, ruleset);
  }

  takeDrift(): readonly Entry[] {
    const drift = [...this.#drift.values()];
    this.#drift.clear();
    return drift;
  }

  transactions(): number {
    return this.#transactions;
  }

  async isAsWritten(): Promise<boolean> {
    const held = this.#held;
    if (held === undefined) return true;
    return isNothing(diffTable(await this.read(), held, true));
  }

  isThere(): boolean {
    return mayHaveChain(this.family, TABLE, SERVICES);
  }

  #noteDrift(found: HeldTable, known: HeldTable): void {
    for (const entry of driftOf(found, known, this.family)) this.#drift.set(entry.text, entry);
  }

  #withLeft(wanted: Wanted): Wanted {
    if (this.#left.length === 0) return wanted;
    const left = this.#left.map((name) => [name, undefined] as const);
    return { ...wanted, chains: new Map([...left, ...wanted.chains]) };
  }

  /** @param since undefined: all is looked at */
  async #writeOver(held: HeldTable, ruleset: Ruleset, since?: Wanted): Promise<number> {
    const wanted = since ?? allWanted(ruleset);
    const diff = diffTable(held, wanted, since === undefined);
    // Until it is known that everything is written.
    this.#held = undefined;
    const done = await this.#commit(held, diff);
    applyDiff(held, done);
    const added = new Set(diff.addedChains.map(([name]) => name));
    this.#left = diff.removedChains.filter((name) => held.chains.has(name) && !added.has(name));
    this.#held = held;
    this.#written = ruleset;
    return countChanges(done);
  }

  /** @returns what has been done */
  async #commit(held: HeldTable, diff: TableDiff): Promise<TableDiff> {
    const script = scriptOf(diff, this.family, held.chains.size > 0);
    if (script === '') return diff;
    const failure = await this.#nft.write(script);
    if (failure === undefined) {
      this.#transactions += 1;
      return diff;
    }
    if (!failure.isBusy || diff.removedChains.length === 0) throw new TransactionError(failure);
    return this.#commit(held, {
      ...diff,
      removedChains: [],
      addedChains: diff.addedChains.filter(([name]) => !held.chains.has(name)),
    });
  }
}
