// SPDX-License-Identifier: Apache-2.0
// Objects of a capture: the fields that a proxy reads, whatever source they come from.
import type { CapturedObject } from '../../capture/format.ts';
import { recordOrEmpty } from '../../lib/json.ts';
import type { Kind, ObjectChange } from '../../model/types.ts';
import {
  type Prune,
  pruneNode,
  pruneService,
  pruneServiceCidr,
  pruneSlice,
} from '../../source/apiserver/decode/prune.ts';

const PRUNES: Readonly<Record<Kind, Prune>> = {
  Service: pruneService,
  EndpointSlice: pruneSlice,
  Node: pruneNode,
  ServiceCIDR: pruneServiceCidr,
};

export const prunedObjects = (changes: readonly ObjectChange[]): readonly CapturedObject[] =>
  changes.flatMap((change): readonly CapturedObject[] => {
    if (change.type !== 'put') return [];
    const { ref, object } = change;
    return [{ ref, object: PRUNES[ref.kind](recordOrEmpty(object), (value) => value) }];
  });
