// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane over tables in memory: its tables give every client what the plan says.

import { createMemoryTables } from '../../src/dataplane/bpf/maps/memory.ts';
import { BPF } from '../../src/dataplane/capabilities.ts';
import { answerOfTables } from './bpf-tables.ts';
import { testConformance } from './conformance.ts';
import { programTables } from './program-tables.ts';

const SIZES = { frontends: 256, backends: 256, slotBlocks: 256, services: 64 };

testConformance('memory', {
  capabilities: BPF,
  open() {
    const tables = createMemoryTables(SIZES);
    return {
      ...programTables(tables),
      answer: (packet, position) => answerOfTables(tables, packet, position),
    };
  },
});
