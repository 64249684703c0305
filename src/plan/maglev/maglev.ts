// SPDX-License-Identifier: Apache-2.0
// Maglev as an algorithm with a lookup table.
import type { LookupAlgorithm } from '../lookup-table.ts';
import { entryOf, flowHash } from './hash.ts';
import { maglevInput } from './input.ts';
import { maglevTable, populate } from './maglev-table.ts';
import { entriesFor } from './size.ts';

export const MAGLEV: LookupAlgorithm = {
  title: 'Maglev',
  entriesFor,
  inputOf: maglevInput,
  tableOf: maglevTable,
  populate,
  entryOf: (flow, entries) => entryOf(flowHash(flow), entries),
};
