// SPDX-License-Identifier: Apache-2.0
// Direct return between nodes: once some Service asks for it, other Nodes are followed, and as soon as all of them are
// programmed, this node says by an annotation of its own Node that it takes such requests, too: a node never sends to one
// that does not know it. The annotation stays when the last Service has changed its mind, because flows that exist go on; it
// goes when the dataplane of this node cannot do it (any more). For the same reason an agent goes on following Nodes when an
// earlier one did: its Node has the annotation, or flows may exist.
import { reasonOf } from '../../errors.ts';
import { type Backoff, createBackoff } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { isRecord, recordOrEmpty } from '../../lib/json.ts';
import type { Logger } from '../../log.ts';
import {
  DIRECT_RETURN_ANNOTATION,
  directReturnText,
  GENEVE_PORT,
} from '../../model/direct-return/annotation.ts';
import type { Problem } from '../../model/problem.ts';
import type { ObjectChange } from '../../model/types.ts';
import type { Plan } from '../../plan/types.ts';
import type { Source } from '../../source/source.ts';

export interface DirectReturnParts {
  readonly nodeName: string;
  /** The dataplane takes such requests: not while rules serve packets. */
  readonly isAble: () => boolean;
  /** An earlier agent has taken, or sent, such requests. */
  readonly hadFlows: boolean;
  readonly source: Pick<Source, 'followNodes' | 'annotateNode' | 'noteAnnotated'>;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

const RETRY = { firstMs: 5_000, maxMs: 300_000, jitter: 'equal' } as const;

export const createDirectReturn = (parts: DirectReturnParts): DirectReturn =>
  new DirectReturn(parts);

export class DirectReturn {
  readonly #parts: DirectReturnParts;
  readonly #backoff: Backoff;
  /** Of the Node of this node; undefined: it has none, or there is no such Node. */
  #annotation: string | undefined;
  #hasNode = false;
  #isFollowing = false;
  /** What `cleanup` was told of the annotation. */
  #noted: boolean | undefined;
  /** One after the other: the last one is what stays. */
  #noting: Promise<void> = Promise.resolve();
  /** Other nodes are programmed. */
  #isReady = false;
  #syncs = 0;
  #isWriting = false;
  #isClosed = false;
  #cancelRetry: (() => void) | undefined;
  #problem: string | undefined;

  constructor(parts: DirectReturnParts) {
    this.#parts = parts;
    this.#backoff = createBackoff(RETRY, parts.clock.random);
  }

  planned(plan: Plan): void {
    const { isAble, hadFlows, source } = this.#parts;
    if (!isAble() || this.#isFollowing || !(hadFlows || takesRequests(plan))) return;
    this.#isFollowing = true;
    source.followNodes?.();
  }

  arrived(changes: readonly ObjectChange[]): void {
    for (const { ref, ...change } of changes) {
      if (ref.kind !== 'Node' || ref.name !== this.#parts.nodeName) continue;
      this.#hasNode = change.type === 'put';
      this.#annotation = change.type === 'put' ? annotationOf(change.object) : undefined;
      this.#reconcile();
    }
  }

  /** @param isComplete this plan is programmed; else an earlier one may be */
  synced(plan: Plan, isComplete: boolean): void {
    if (this.#isReady || !this.#isFollowing) return;
    if (plan.node.peers === undefined || !takesRequests(plan)) return;
    // A sync that had begun before the nodes were known is followed by another one.
    this.#syncs += 1;
    if (!isComplete && this.#syncs < 2) return;
    this.#isReady = true;
    this.#reconcile();
  }

  /** It may be able now, or no more. */
  packetsMoved(): void {
    this.#reconcile();
  }

  /** Why the annotation is not as it should be. */
  problems(): readonly Problem[] {
    return this.#problem === undefined ? [] : [{ reason: this.#problem, isWarning: true }];
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRetry?.();
  }

  /** undefined: it stays as it is; null: there is none. */
  #wanted(): string | null | undefined {
    if (!this.#parts.isAble()) return this.#annotation === undefined ? undefined : null;
    return this.#isReady ? directReturnText(GENEVE_PORT) : undefined;
  }

  /** While an able node lacks it, an earlier one may still be known to others, and the next is about to be written. */
  #note(): void {
    const isThere = this.#annotation !== undefined;
    if (!this.#hasNode || isThere === this.#noted || (!isThere && this.#parts.isAble())) return;
    this.#noted = isThere;
    const { source, log, nodeName } = this.#parts;
    const note = async (): Promise<void> => source.noteAnnotated?.(isThere);
    this.#noting = this.#noting.then(note).catch((error: unknown) => {
      log.warn(
        { node: nodeName, reason: reasonOf(error) },
        'cannot record the Node annotation, cleanup will not remove it',
      );
    });
  }

  #reconcile(): void {
    this.#note();
    const wanted = this.#wanted();
    const isDue = wanted !== undefined && wanted !== (this.#annotation ?? null);
    if (!isDue || !this.#hasNode || this.#isWriting || this.#isClosed) return;
    this.#cancelRetry?.();
    void this.#write(wanted);
  }

  async #write(text: string | null): Promise<void> {
    const { source, nodeName, log } = this.#parts;
    if (source.annotateNode === undefined) return;
    this.#isWriting = true;
    try {
      await source.annotateNode(nodeName, { [DIRECT_RETURN_ANNOTATION]: text });
      if (this.#isClosed) return;
      log.info({ node: nodeName, annotation: text }, 'annotation for direct return written');
      this.#annotation = text ?? undefined;
      this.#problem = undefined;
      this.#backoff.reset();
      this.#note();
    } catch (error) {
      if (!this.#isClosed) this.#failed(text, reasonOf(error));
    } finally {
      this.#isWriting = false;
    }
    if (this.#problem === undefined) this.#reconcile();
  }

  #failed(text: string | null, reason: string): void {
    const { nodeName, clock, log } = this.#parts;
    const command = `kubectl annotate node ${nodeName} --overwrite ${DIRECT_RETURN_ANNOTATION}${text === null ? '-' : `=${text}`}`;
    const effect =
      text === null
        ? 'other nodes may go on sending requests to it that it cannot take'
        : 'other nodes masquerade what they send to it';
    const problem = `Node ${nodeName} could not be annotated for direct return (${reason}): ${effect}; give the agent the right to patch nodes (docs/direct-return.md), or run ${command}`;
    if (problem !== this.#problem) log.warn({ node: nodeName, reason }, problem);
    this.#problem = problem;
    this.#cancelRetry = clock.after(this.#backoff.nextMs(), () => this.#reconcile());
  }
}

const takesRequests = ({ wantsDirectReturn, node }: Plan): boolean =>
  wantsDirectReturn === true || node.isPeer === true;

function annotationOf(object: unknown): string | undefined {
  if (!isRecord(object)) return undefined;
  const { annotations } = recordOrEmpty(object['metadata']);
  const text = recordOrEmpty(annotations)[DIRECT_RETURN_ANNOTATION];
  return typeof text === 'string' ? text : undefined;
}
