// SPDX-License-Identifier: Apache-2.0
// Without a kernel: the tables of the BPF dataplane, and what the sockets of the userspace engine choose, give every client what
// the plan says.

import {
  BPF,
  bpfCapabilities,
  type Capabilities,
  userspaceCapabilities,
} from '../../src/engines/capabilities.ts';
import type { Plan } from '../../src/plan/types.ts';
import { createMemoryTables } from '../support/tables/memory.ts';
import { type Asked, testConformance } from './conformance.ts';
import { answerOfTables, positionInTables } from './subjects/bpf-tables.ts';
import { answerOfSockets } from './subjects/own-sockets.ts';
import { programTables } from './subjects/program-tables.ts';

const SIZES = { frontends: 256, backends: 256, slotBlocks: 256, services: 64 };

const overMemory = (capabilities: Capabilities) => ({
  capabilities,
  open() {
    const tables = createMemoryTables(SIZES);
    return {
      ...programTables(tables, capabilities),
      answer: ({ packet, position }: Asked) => answerOfTables(tables, packet, position),
      positionOf: (source: string) => positionInTables(tables, source),
    };
  },
});

testConformance('memory', overMemory(BPF));
testConformance('memory, with packets', overMemory(bpfCapabilities({ packets: true })));

const USERSPACE = userspaceCapabilities('addresses');

testConformance('userspace', {
  capabilities: USERSPACE,
  open() {
    let current: Plan;
    return {
      sync: async (plan) => {
        current = plan;
      },
      answer: (asked) => answerOfSockets(current, asked, USERSPACE),
      close: () => undefined,
    };
  },
});
