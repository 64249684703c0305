// SPDX-License-Identifier: Apache-2.0
// What the rows of `fairlead services` say of who may reach a frontend, and of where it is.
import type { FrontendKind } from '../model/types.ts';
import type { Frontend, ServicePlan, ServicePortPlan } from '../plan/types.ts';

export interface ExposureColumns {
  /** Of clients that may use it, with the address itself, or by `sourcePolicy` of those that may not; undefined: all may, or no agent runs. */
  readonly sourceRanges: readonly string[] | undefined;
  /** What becomes of clients in `sourceRanges`; undefined: they are allowed, and nobody else. */
  readonly sourcePolicy?: 'deny';
  /** Kinds of frontends that the Service is restricted to. */
  readonly exposedKinds?: readonly FrontendKind[];
  /** Label selector of the nodes that have its frontends except the ClusterIP; '' = it could not be read. */
  readonly exposedOn?: string;
  /** Whether this node is one of them. */
  readonly isExposedHere?: boolean;
}

export function sourcesOf(
  { sources }: ServicePortPlan,
  { isFiltered }: Frontend,
): Pick<ExposureColumns, 'sourceRanges' | 'sourcePolicy'> {
  if (!isFiltered || sources === undefined) return { sourceRanges: undefined };
  const { policy, ranges } = sources;
  return { sourceRanges: ranges, ...(policy === 'deny' && { sourcePolicy: policy }) };
}

export function exposureOf({
  exposure,
}: ServicePlan): Pick<ExposureColumns, 'exposedKinds' | 'exposedOn' | 'isExposedHere'> {
  if (exposure === undefined) return {};
  const { kinds, nodes, isHere } = exposure;
  return {
    ...(kinds !== undefined && { exposedKinds: kinds }),
    ...(nodes !== undefined && { exposedOn: nodes, isExposedHere: isHere }),
  };
}
