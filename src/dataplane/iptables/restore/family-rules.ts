// SPDX-License-Identifier: Apache-2.0
// The rules of one family: reads what is held, writes what differs from what is wanted. Between full syncs it knows what
// is held from what it has written itself; after a failure it reads.
import { FairleadError } from '../../../errors.ts';
import { applyDiffs, type MutableTables } from '../diff/apply.ts';
import { type ChainChange, changesOf } from '../diff/changes.ts';
import { diffTables, type WantedTable } from '../diff/diff.ts';
import { isOurs, isShared } from '../diff/ours.ts';
import { restoreInput } from '../diff/restore-input.ts';
import { heldTables, TABLES } from '../diff/text.ts';
import type { Failure } from './failure.ts';
import type { Tools } from './tools.ts';

/** @see RESTORE_FAILED in errors.ts */
export class RestoreError extends FairleadError {
  /** That failed; undefined: not known. */
  readonly line: string | undefined;

  constructor({ reason, line }: Failure) {
    super('RESTORE_FAILED', reason);
    this.line = line;
  }
}

/** In each table: without it, somebody has removed all rules there. */
const CANARY = 'KUBE-PROXY-CANARY';

export interface FamilyRules {
  /**
   * Writes what differs, each table in one transaction; throws RestoreError.
   * @param isFull what is held is read first, and what nothing wants is removed
   * @returns what was different
   */
  write(wanted: readonly WantedTable[], isFull: boolean): Promise<readonly ChainChange[]>;
  /** The same as a full write. @returns what somebody else has changed since the last one */
  audit(wanted: readonly WantedTable[]): Promise<Audited>;
  /** What iptables-save prints. */
  save(): Promise<string>;
  /** False if somebody has removed the rules of a table since they were written. */
  isThere(): Promise<boolean>;
}

export interface Audited {
  readonly drift: readonly ChainChange[];
  readonly changes: readonly ChainChange[];
}

export const familyRules = (tools: Tools): FamilyRules => new WrittenRules(tools);

class WrittenRules implements FamilyRules {
  readonly #tools: Tools;
  /** undefined: to be read. */
  #held: MutableTables | undefined;

  constructor(tools: Tools) {
    this.#tools = tools;
  }

  async write(wanted: readonly WantedTable[], isFull: boolean): Promise<readonly ChainChange[]> {
    const held = isFull || this.#held === undefined ? await this.#read() : this.#held;
    return this.#writeOver(held, wanted);
  }

  async audit(wanted: readonly WantedTable[]): Promise<Audited> {
    const known = this.#held;
    const held = await this.#read();
    const drift =
      known === undefined ? [] : changesOf(diffTables(held, asWritten(known, wanted)), held);
    return { drift, changes: await this.#writeOver(held, wanted) };
  }

  async #writeOver(
    held: MutableTables,
    wanted: readonly WantedTable[],
  ): Promise<readonly ChainChange[]> {
    const diffs = diffTables(held, wanted);
    const input = restoreInput(diffs);
    const changes = changesOf(diffs, held);
    // Until it is known that everything is written.
    this.#held = undefined;
    if (input !== '') {
      const failure = await this.#tools.restore(input);
      if (failure !== undefined) throw new RestoreError(failure);
    }
    applyDiffs(held, diffs);
    shareTexts(held, wanted);
    this.#held = held;
    return changes;
  }

  save(): Promise<string> {
    return this.#tools.save();
  }

  async isThere(): Promise<boolean> {
    for (const table of TABLES) {
      if (!(await this.#tools.hasChain(table, CANARY))) return false;
    }
    return true;
  }

  async #read(): Promise<MutableTables> {
    const tables = heldTables(await this.#tools.save());
    return new Map([...tables].map(([name, chains]) => [name, new Map(chains)]));
  }
}

/** What was wanted at the last write: plans change between audits. */
const asWritten = (known: MutableTables, wanted: readonly WantedTable[]): readonly WantedTable[] =>
  wanted.map(({ name, chains, jumps }) => {
    const ours = [...(known.get(name) ?? [])].filter(([chain]) => isOurs(name, chain));
    const shared = [...chains].filter(([chain]) => isShared(chain));
    return { name, chains: new Map([...ours, ...shared]), jumps };
  });

/** Of two equal texts only one is kept. */
function shareTexts(held: MutableTables, wanted: readonly WantedTable[]): void {
  for (const { name, chains } of wanted) {
    const table = held.get(name);
    for (const [chain, text] of chains) if (table?.get(chain) === text) table.set(chain, text);
  }
}
