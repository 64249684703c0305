// SPDX-License-Identifier: Apache-2.0
// At a start, the kernel verifies the programs of devices while it verifies those of sockets. Both share maps, which are made
// before.
import type { BpfMap } from '../../../../sys/native.ts';
import { type Attached, attachLayer } from '../loader/attach.ts';
import {
  type DevicePrograms,
  type First,
  openPrograms,
  type ProgramsParts,
  packetPrograms,
} from './programs.ts';

export interface EarlyPrograms {
  /** For the layer of sockets; undefined: they could not be made, as that layer will find, too. */
  readonly maps: ReadonlyMap<string, BpfMap> | undefined;
  /** Rejects with FairleadError. */
  readonly programs: Promise<DevicePrograms>;
  /** Once both layers are loaded. */
  closeMaps(): void;
  /** If devices get no programs. What is pinned stays, for the sockets. */
  close(): Promise<void>;
  /** As if nothing had been loaded. */
  undo(): Promise<void>;
}

/** Resolves when the maps are there. Throws NO_OBJECT. */
export async function beginPrograms(parts: ProgramsParts, first: First): Promise<EarlyPrograms> {
  const bytes = parts.object();
  const made = await makeMaps(bytes, parts).catch(() => undefined);
  const programs = openPrograms(parts, first, { bytes, shared: made?.maps });
  // What refuses them is said where they are waited for.
  const ended = programs.catch(() => undefined);
  return {
    maps: made?.maps,
    programs,
    closeMaps: () => made?.close(),
    async close() {
      (await ended)?.close();
      made?.close();
    },
    async undo() {
      (await ended)?.close();
      made?.undo();
    },
  };
}

/** An object without its programs is its maps. */
const makeMaps = (
  bytes: Uint8Array,
  { bpfRoot, sizes }: Omit<ProgramsParts, 'object'>,
): Promise<Attached> => attachLayer({ layer: packetPrograms(bytes, [], [{}]), bpfRoot, sizes });
