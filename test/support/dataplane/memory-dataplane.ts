// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane over tables in memory: everything but the kernel.
import { type BpfParts, createBpfDataplane } from '../../../src/dataplane/bpf/dataplane.ts';
import type { Tables } from '../../../src/dataplane/bpf/maps/tables.ts';
import { BPF } from '../../../src/dataplane/capabilities.ts';
import type { Dataplane } from '../../../src/dataplane/dataplane.ts';
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
