// SPDX-License-Identifier: Apache-2.0
// The table of one family: reads what is held, writes what differs from what is wanted. Between full syncs it knows what is
// held from what it has written itself, and sends changes of Services to the kernel without nft; after a failure it reads.
import { FairleadError } from '../../../errors.ts';
import type { Family } from '../../../model/types.ts';
import { mayHaveChain } from '../../../sys/netfilter.ts';
import type { SendBatch } from '../../../sys/netlink/nft/batch.ts';
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
import { messagesOf } from './messages/transaction.ts';
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
  /** What an earlier agent has written: it is read, and known from then on. */
  adopt(): Promise<HeldTable>;
  /**
   * Writes what differs in one transaction; throws TransactionError.
   * @param isUntouched nobody else has changed tables since this one was read or written
   * @returns how many chains and elements were different
   */
  write(
    ruleset: Ruleset,
    extent: 'audit' | 'all' | 'changes',
    isUntouched: boolean,
  ): Promise<number>;
  /** What audits have found since it was asked last, also those that failed. */
  takeDrift(): readonly Entry[];
  /** That were committed since the start: each is one step of the kernel's generation. */
  transactions(): number;
  isAsWritten(): Promise<boolean>;
  /** False if somebody has removed the table since it was written. */
  isThere(): boolean;
}

/** @param send absent: nft writes everything */
export const familyTable = (family: Family, nft: Nft, send?: SendBatch): FamilyTable =>
  new WrittenTable(family, nft, send);

class WrittenTable implements FamilyTable {
  readonly family: Family;
  readonly #nft: Nft;
  readonly #send: SendBatch | undefined;
  /** undefined: to be read. */
  #held: HeldTable | undefined;
  /** What has made it so. */
  #written: Ruleset | undefined;
  /** Chains that nothing leads to, and that the kernel could not remove yet. */
  #left: readonly string[] = [];
  #transactions = 0;
  /** Messages have changed it since it was read. */
  #hasSent = false;
  /** By name: what is changed again before it is reported is one difference. */
  readonly #drift = new Map<string, Entry>();

  constructor(family: Family, nft: Nft, send: SendBatch | undefined) {
    this.family = family;
    this.#nft = nft;
    this.#send = send;
  }

  async read(): Promise<HeldTable> {
    return parseTable(await this.#nft.list());
  }

  async adopt(): Promise<HeldTable> {
    this.#held = await this.read();
    return this.#held;
  }

  async write(
    ruleset: Ruleset,
    extent: 'audit' | 'all' | 'changes',
    isUntouched: boolean,
  ): Promise<number> {
    const [held, written] = [this.#held, this.#written];
    if (extent === 'changes' && held !== undefined && written !== undefined)
      return this.#writeOver(held, ruleset, this.#withLeft(wantedSince(written, ruleset))).catch(
        // Somebody may have removed what it is written over: no Service is to blame for that.
        async () => this.#writeOver(await this.read(), ruleset),
      );
    // Messages are our own encoding: what they have made is read once, whoever else has touched the table.
    const isKnown = isUntouched && (extent !== 'audit' || !this.#hasSent);
    if (held !== undefined && isKnown) return this.#writeOver(held, ruleset);
    const found = await this.read();
    // Before it is written: where that fails, nobody knows afterwards what was there.
    if (extent === 'audit' && held !== undefined) this.#noteDrift(found, held);
    this.#hasSent = false;
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
    const done = await this.#commit(held, diff, since !== undefined);
    applyDiff(held, done);
    const added = new Set(diff.addedChains.map(([name]) => name));
    this.#left = diff.removedChains.filter((name) => held.chains.has(name) && !added.has(name));
    this.#held = held;
    this.#written = ruleset;
    return countChanges(done);
  }

  /** @param isPart of what somebody may have changed @returns what has been done */
  async #commit(held: HeldTable, diff: TableDiff, isPart: boolean): Promise<TableDiff> {
    if (isNothing(diff)) return diff;
    const failure = await this.#try(held, diff, isPart);
    if (failure === undefined) {
      this.#transactions += 1;
      return diff;
    }
    if (!failure.isBusy || diff.removedChains.length === 0) throw new TransactionError(failure);
    const rest = {
      ...diff,
      removedChains: [],
      addedChains: diff.addedChains.filter(([name]) => !held.chains.has(name)),
    };
    return this.#commit(held, rest, isPart);
  }

  /** Whose a refused message is remains unknown: nft, which then writes what differs from what is there, tells it. */
  async #try(held: HeldTable, diff: TableDiff, isPart: boolean): Promise<Failure | undefined> {
    const send = isPart ? this.#send : undefined;
    const messages = send && messagesOf(diff, this.family, held);
    if (send === undefined || messages === undefined)
      return this.#nft.write(scriptOf(diff, this.family, held.chains.size > 0));
    this.#hasSent = true;
    const reason = await send(messages);
    return reason === undefined
      ? undefined
      : { reason, line: undefined, isBusy: reason === 'EBUSY' };
  }
}
