// SPDX-License-Identifier: Apache-2.0
// What a node's kernel must hold: all objects, listed from an API server and planned in one pass by `buildAll`,
// independently of any agent. And what it does hold, read from its pins, with or without an agent.

import { join } from 'node:path';
import { resolveConfig } from '../../../../src/config/resolve.ts';
import { tableFill } from '../../../../src/engines/bpf/inspect/view.ts';
import { mapNamed } from '../../../../src/engines/bpf/kernel/loader/attach.ts';
import { openPinned } from '../../../../src/engines/bpf/kernel/loader/open-pinned.ts';
import { pinFolder } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { kernelTables, TABLE_MAPS } from '../../../../src/engines/bpf/kernel/maps/kernel.ts';
import { adopt } from '../../../../src/engines/bpf/state/adopt.ts';
import { bpfCapabilities } from '../../../../src/engines/capabilities.ts';
import type { TableFill } from '../../../../src/engines/snapshot.ts';
import { programmedBelow } from '../../../../src/instance/dataplanes.ts';
import type { Kind } from '../../../../src/model/types.ts';
import { backendRows } from '../../../../src/observe/backend-rows.ts';
import type { KernelState } from '../../../../src/observe/rows.ts';
import { serviceRows } from '../../../../src/observe/service-rows.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import { openPinnedMap } from '../../../../src/sys/native.ts';
import { buildAll, type NamedObject } from '../../../support/plan/build-all.ts';
import type { Api, ListOf } from '../objects/api.ts';
import { NODES } from '../objects/objects.ts';

export const POD_RANGES = '10.1.0.0/16,fd00:10::/32';
const LABEL_OF_ANOTHER = 'service.kubernetes.io/service-proxy-name';
const PATHS: Readonly<Record<Kind, string>> = {
  Service: '/api/v1/services',
  EndpointSlice: '/apis/discovery.k8s.io/v1/endpointslices',
  Node: NODES,
  ServiceCIDR: '/apis/networking.k8s.io/v1/servicecidrs',
};

export async function listObjects(api: Api): Promise<readonly NamedObject[]> {
  const lists = Object.entries(PATHS).map(async ([kind, path]) => {
    type Item = { readonly metadata: { readonly name: string; readonly namespace?: string } };
    const { items } = await api.get<ListOf<Item>>(path);
    return items.map((object) => {
      const { name, namespace = '' } = object.metadata;
      return { ref: { kind: kind as Kind, namespace, name }, object };
    });
  });
  return (await Promise.all(lists)).flat();
}

/** Of an agent that was started with `--cluster-cidr POD_RANGES`. */
export function planOf(objects: readonly NamedObject[], nodeName: string): Plan {
  const flags = { 'hostname-override': nodeName, 'cluster-cidr': POD_RANGES };
  const { plan } = resolveConfig({ flags, hostname: nodeName });
  return buildAll(
    objects.filter((object) => isForUs(object, nodeName)),
    plan,
  );
}

/** Drops the objects that a proxy's label selectors exclude. */
function isForUs({ ref, object }: NamedObject, nodeName: string): boolean {
  const { metadata, spec } = object as {
    metadata: { labels?: Readonly<Record<string, unknown>> };
    spec?: { clusterIP?: string };
  };
  if (ref.kind === 'Node') return ref.name === nodeName;
  if (ref.kind !== 'Service') return true;
  return spec?.clusterIP !== 'None' && metadata.labels?.[LABEL_OF_ANOTHER] === undefined;
}

/** A frontend or backend by name, and whether it is desired, programmed or both. */
export type Held = ReadonlyMap<string, KernelState>;

/** Every frontend and backend that is desired, programmed or both. */
export function heldOf(bpfRoot: string, plan: Plan): Held {
  const programmed = programmedBelow(bpfRoot);
  const frontends = serviceRows(plan, programmed.frontends, [bpfCapabilities({ packets: true })]);
  const backends = backendRows(plan, programmed.backends);
  return new Map([
    ...frontends.map((row) => [textOf(row, row.frontend), row.kernelState] as const),
    ...backends.map((row) => [textOf(row, `-> ${row.backend}`), row.kernelState] as const),
  ]);
}

const textOf = (row: { namespace: string; name: string; family: string }, what: string): string =>
  `${row.namespace}/${row.name} ${row.family} ${what}`;

/** What is used of the tables; nothing is retired in it. */
export function tablesBelow(bpfRoot: string): readonly TableFill[] {
  const maps = new Map(TABLE_MAPS.map((name) => [name as string, openPinned(bpfRoot, name)]));
  try {
    return tableFill(adopt(kernelTables((name) => mapNamed(maps, name))).ledger);
  } finally {
    for (const map of maps.values()) map.close();
  }
}

/** Differences between kernel and plan; empty when they are in sync. */
export const wrongIn = (held: Held): readonly string[] =>
  [...held].filter(([, state]) => state !== 'ok').map(([what, state]) => `${what}: ${state}`);

/**
 * Calls `begin`, then blocks until an agent of these pins writes a set of backends, which is how a sync
 * begins. False if none did in time.
 */
export function isWrittenAfter(bpfRoot: string, begin: () => void, timeoutMs: number): boolean {
  // The whole table: sets move to new blocks with every change.
  const blocks = openPinnedMap(join(pinFolder(bpfRoot).maps, 'fl_slot_block'));
  try {
    const bytes = new Uint8Array(blocks.mmap());
    const before = Buffer.from(bytes);
    begin();
    const deadlineMs = performance.now() + timeoutMs;
    while (performance.now() < deadlineMs) {
      if (before.compare(bytes) !== 0) return true;
    }
    return false;
  } finally {
    blocks.close();
  }
}

/** Blocks the event loop for this long. */
export function spin(durationMs: number): void {
  const untilMs = performance.now() + durationMs;
  while (performance.now() < untilMs);
}
