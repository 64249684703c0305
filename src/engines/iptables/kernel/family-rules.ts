// SPDX-License-Identifier: Apache-2.0
// The rules of one family: reads what is held, writes what differs from what is wanted. Between full syncs it knows what
// is held from what it has written itself; after a failure it reads.
import { FairleadError } from '../../../errors.ts';
import { KUBE_SERVICES } from '../rules/names.ts';
import { applyDiffs, type MutableTables } from '../state/diff/apply.ts';
import { type ChainChange, changesOf, countChanges } from '../state/diff/changes.ts';
import { changedSince, diffTables, type TableDiff, type WantedTable } from '../state/diff/diff.ts';
import { isOurs, isShared } from '../state/diff/ours.ts';
import { restoreInput } from '../state/diff/restore-input.ts';
import { isAsWritten } from '../state/diff/same.ts';
import { heldTables, TABLES } from '../state/diff/text.ts';
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

/** Shorter than `fairlead services` waits for its answer. */
const VIEW_MS = 20_000;

/** In each table: without it, somebody has removed all rules there. */
const CANARY = 'KUBE-PROXY-CANARY';

export interface Writing {
  /** What is held is read first, and what nothing wants is removed. */
  readonly isFull: boolean;
  /**
   * A rule of it was refused before, in nat as a rule: nat is written first, so that filter does not refuse a Service for as long
   * as it takes to find that nat is refused again.
   */
  readonly isRetry: boolean;
}

/** @param chainsAtOnce @see restoreInput */
export const familyRules = (tools: Tools, chainsAtOnce?: number): FamilyRules =>
  new FamilyRules(tools, chainsAtOnce);

export class FamilyRules {
  readonly #tools: Tools;
  readonly #chainsAtOnce: number | undefined;
  /** undefined: to be read. */
  #held: MutableTables | undefined;
  /** What has made it so. */
  #written: readonly WantedTable[] | undefined;
  #transactions = 0;
  /** By table and chain: what is changed again before it is reported is one difference. */
  readonly #drift = new Map<string, ChainChange>();

  constructor(tools: Tools, chainsAtOnce: number | undefined) {
    this.#tools = tools;
    this.#chainsAtOnce = chainsAtOnce;
  }

  /** Writes what differs, each table in one transaction; throws RestoreError. @returns how many chains were different */
  async write(wanted: readonly WantedTable[], { isFull, isRetry }: Writing): Promise<number> {
    if (isFull || this.#held === undefined)
      return this.#writeOver(await this.#read(), wanted, isRetry);
    return this.#writeOver(this.#held, wanted, isRetry, this.#written);
  }

  /** The same as a full write, and what somebody else has changed since the last one is noted. */
  async audit(wanted: readonly WantedTable[], isRetry: boolean): Promise<number> {
    const known = this.#held;
    const held = await this.#read();
    // Before it is written: where that fails, nobody knows afterwards what was there.
    if (known !== undefined) {
      for (const change of changesOf(diffTables(held, asWritten(known, wanted)), held))
        this.#drift.set(`${change.table} ${change.chain}`, change);
    }
    return this.#writeOver(held, wanted, isRetry);
  }

  /** What audits have found since it was asked last, also those that failed. */
  takeDrift(): readonly ChainChange[] {
    const drift = [...this.#drift.values()];
    this.#drift.clear();
    return drift;
  }

  async #writeOver(
    held: MutableTables,
    wanted: readonly WantedTable[],
    isRetry: boolean,
    written?: readonly WantedTable[],
  ): Promise<number> {
    const diffs = diffTables(held, wanted, written);
    // The first rules translate before they refuse: another engine may serve until then.
    const isFirst = held.get('nat')?.has(KUBE_SERVICES) !== true;
    const input = restoreInput(isRetry || isFirst ? natFirst(diffs) : diffs, this.#chainsAtOnce);
    // Until it is known that everything is written.
    this.#held = undefined;
    if (input !== '') {
      const failure = await this.#tools.restore(input);
      if (failure !== undefined) throw new RestoreError(failure);
      this.#transactions += input.match(/^COMMIT$/gm)?.length ?? 0;
    }
    applyDiffs(held, diffs);
    shareTexts(held, wanted, written);
    this.#held = held;
    this.#written = wanted;
    return countChanges(diffs);
  }

  /** That were committed since the start: each is one step of the kernel's generation. */
  transactions(): number {
    return this.#transactions;
  }

  /** What iptables-save prints, for somebody who waits for it. */
  save(): Promise<string> {
    return this.#tools.save({ timeoutMs: VIEW_MS });
  }

  /** False if somebody has changed rules since they were written. Reads all of them. */
  async isAsWritten(): Promise<boolean> {
    const written = this.#held;
    return written === undefined || isAsWritten(written, heldTables(await this.#tools.save()));
  }

  /** False if somebody has removed the rules of a table since they were written. */
  async isThere(): Promise<boolean> {
    for (const table of TABLES) {
      if (!(await this.#tools.hasChain(table, CANARY))) return false;
    }
    return true;
  }

  async #read(): Promise<MutableTables> {
    const tables = heldTables(await this.#tools.save({ isLast: true }));
    return new Map([...tables].map(([name, chains]) => [name, new Map(chains)]));
  }
}

const natFirst = (diffs: readonly TableDiff[]): readonly TableDiff[] => [
  ...diffs.filter(({ name }) => name === 'nat'),
  ...diffs.filter(({ name }) => name !== 'nat'),
];

/** What was wanted at the last write: plans change between audits. */
const asWritten = (known: MutableTables, wanted: readonly WantedTable[]): readonly WantedTable[] =>
  wanted.map(({ name, chains, jumps }) => {
    const ours = [...(known.get(name) ?? [])].filter(([chain]) => isOurs(name, chain));
    const shared = [...chains].filter(([chain]) => isShared(chain));
    return { name, chains: new Map([...ours, ...shared]), jumps };
  });

/** Of two equal texts only one is kept. */
function shareTexts(
  held: MutableTables,
  wanted: readonly WantedTable[],
  written: readonly WantedTable[] | undefined,
): void {
  for (const one of wanted) {
    const table = held.get(one.name);
    for (const [chain, text] of changedSince(written, one) ?? one.chains) {
      if (text !== undefined && table?.get(chain) === text) table.set(chain, text);
    }
  }
}
