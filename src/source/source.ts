// SPDX-License-Identifier: Apache-2.0
// A source delivers the objects of the API: Services, EndpointSlices, Nodes and ServiceCIDRs. There are two, a
// folder of manifests (manifests/) and an API server (apiserver/); both implement the interface below, and
// neither knows the other. What an object means is decided by src/model. A source that cannot be read reports a
// problem and never a removal: what it delivered stays programmed until something better is read.
import type { Problem } from '../model/problem.ts';
import type { ObjectChange, ObjectRef } from '../model/types.ts';
import type { ClusterStatus } from './apiserver/cluster.ts';
import type { RequestFacts } from './apiserver/counters.ts';
import type { IndependentList } from './apiserver/independent/list.ts';

export interface SourceListener {
  /** Never called with an empty list. */
  onChanges(changes: readonly ObjectChange[]): void;
  /** Once: complete lists have been delivered. */
  onSynced(): void;
  /** Once, after followNodes(): every other Node has been delivered. */
  onNodes?(): void;
  /** All problems as they are now, whenever they differ from the last call's. */
  onProblems(problems: readonly Problem[]): void;
  /** Every request to an API server; a folder makes none. */
  onRequest?(request: RequestFacts): void;
}

/** Does nothing before it is started. */
export interface Source {
  readonly kind: string;
  readonly location: string;
  /** Called once: from now on the listener is told what the source has. */
  start(listener: SourceListener): void;
  problems(): readonly Problem[];
  /** File and line of a field of a delivered object; undefined for a source without files. */
  locate(
    ref: ObjectRef,
    field: string,
  ): { readonly file: string; readonly line: number } | undefined;
  /** The delivered changes that the plan has now, in their order, and those of them that do not count; absent: of no interest. */
  judged?(changes: readonly ObjectChange[], refused: ReadonlySet<ObjectChange>): void;
  /** Requests to an API server and their answers; absent for a folder. */
  cluster?(): ClusterStatus | undefined;
  /** All objects once more, beside what is followed; absent for a folder. */
  independent?(): IndependentList;
  /** What was delivered is not what the source has: all of it is listed anew. Absent for a folder. */
  relist?(): void;
  /** From now on other Nodes are delivered, too; absent: they are anyway. Idempotent. */
  followNodes?(): void;
  /** Sets annotations of a Node, or with null removes them; absent if the source accepts no changes. */
  annotateNode?(name: string, annotations: Readonly<Record<string, string | null>>): Promise<void>;
  /** Keeps on disk whether the Node of this node has an annotation of ours, for `cleanup`; absent as annotateNode. */
  noteAnnotated?(isAnnotated: boolean): Promise<void>;
  /** Creates an object at the source, as soon as it is started; absent if it accepts none. */
  post?(path: string, object: unknown): Promise<void>;
  close(): void;
}
