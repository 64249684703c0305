// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane over tables in memory: everything but the kernel.
import { type BpfParts, createBpfDataplane } from '../../../src/engines/bpf/kernel/dataplane.ts';
import type { Tables } from '../../../src/engines/bpf/state/tables.ts';
import { BPF } from '../../../src/engines/capabilities.ts';
import type { Dataplane } from '../../../src/engines/dataplane.ts';
import { createMemoryTables, type MemoryTables } from '../tables/memory.ts';

export const memoryTables = (): MemoryTables =>
  createMemoryTables({ frontends: 4096, backends: 4096, slotBlocks: 4096, services: 2048 });

/** Over any tables: those of memory unless a test has others. */
export const memoryDataplane = (tables: Tables, parts: Partial<BpfParts> = {}): Dataplane =>
  createBpfDataplane({
    capabilities: BPF,
    tables,
    waitGracePeriod: () => Promise.resolve(),
    installation: {
      hooks: [],
      refusesWith: 'ECONNREFUSED',
      cgroupRoot: '/cg',
      bpfRoot: '/bpf',
      refused: [],
    },
    outcomes: () => ({}),
    close: () => undefined,
    log: { info: () => undefined, warn: () => undefined },
    ...parts,
  });
