// SPDX-License-Identifier: Apache-2.0
// How many Nodes the cluster has, and so over how long they must spread what all of them do at once. Only
// this node's Node is watched; but a list of one item says how many remain (`remainingItemCount`), which costs
// the server one item.
import { reasonOf } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { recordOrEmpty } from '../../../lib/json.ts';
import type { Logger } from '../../../log.ts';
import { LIMITS } from '../limits.ts';
import type { Transport } from './transport.ts';

/** Not `resourceVersion=0`: the API server would ignore the limit. */
const PATH = '/api/v1/nodes?limit=1';

export interface NodeCountParts {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'debug'>;
}

export class NodeCount {
  readonly #parts: NodeCountParts;
  #nodes: number | undefined;
  #cancel: () => void = () => undefined;
  #request: AbortController | undefined;
  #isClosed = false;

  constructor(parts: NodeCountParts) {
    this.#parts = parts;
  }

  /** Undefined until the API server has said it. */
  get nodes(): number | undefined {
    return this.#nodes;
  }

  /** Time within which every node of the cluster gets its turn. */
  get spreadMs(): number {
    const nodes = this.#nodes ?? LIMITS.unknownNodes;
    return Math.min(LIMITS.spreadMaxMs, nodes * LIMITS.spreadMsPerNode);
  }

  /** Asks once soon, then every now and then; an answer that does not come changes nothing. */
  start(): void {
    const { clock } = this.#parts;
    this.#askAfter(LIMITS.nodeCountFirstMs * clock.random());
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
    this.#request?.abort();
  }

  #askAfter(delayMs: number): void {
    if (this.#isClosed) return;
    this.#cancel = this.#parts.clock.after(delayMs, () => void this.#ask());
  }

  async #ask(): Promise<void> {
    const { transport, log } = this.#parts;
    this.#request = new AbortController();
    try {
      this.#nodes = countIn(await transport.json(PATH, this.#request)) ?? this.#nodes;
    } catch (error) {
      log.debug({ reason: reasonOf(error) }, 'number of Nodes not known');
    }
    this.#askAfter(LIMITS.nodeCountMs);
  }
}

/** Servers older than 1.15 say nothing of what remains. */
function countIn(list: unknown): number | undefined {
  const { items, metadata } = recordOrEmpty(list);
  const { remainingItemCount, continue: token } = recordOrEmpty(metadata);
  if (!Array.isArray(items)) return undefined;
  if (typeof remainingItemCount === 'number') return items.length + remainingItemCount;
  return token === undefined || token === '' ? items.length : undefined;
}
