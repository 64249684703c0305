// SPDX-License-Identifier: Apache-2.0
// No first packet waits while links are replaced: programs of the table that is replaced begin no connection any more, and
// call those of the next table instead (bpf/packet/conn/pass_on.h). Both give SNAT ports for a moment, so each has its share.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type BpfMap, type BpfProgram, openPinnedMap } from '../../../../sys/native.ts';
import { DEVICE_PROGRAMS } from '../../layer.ts';
import { encodeU32 } from '../../layout/layout.ts';
import { mapPin } from '../../layout/versions.ts';
import { pinFolder } from '../loader/pins.ts';
import type { Known } from './changes.ts';
import { oldGenerations } from './generations.ts';

/** enum port_share of bpf/packet/types.h. */
export const PORTS = { even: 1, odd: 2 } as const;
const ELEMENT = encodeU32(0);

/** Those of the next table, by name. */
export type NextPrograms = ReadonlyMap<string, BpfProgram>;

export interface Passing {
  /** Before the last whole round: from now on no port is given by both. */
  share(): void;
  /**
   * Connections begin in the next table alone. It lasts until the maps of the former one are removed, even without an agent.
   *
   * @returns false: the kernel lets these programs not be called, as after a change of its settings of the JIT
   */
  begin(): boolean;
}

/** undefined: programs of an earlier version, which cannot. */
export function passingTo(known: Known, next: NextPrograms): Passing | undefined {
  const pins = (folder: string) =>
    [mapPin('fl_phase', known.versions), mapPin('fl_next', known.versions)].map((pin) =>
      join(folder, pin),
    );
  const old = oldGenerations(known.bpfRoot).map(pins);
  if (old.length === 0 || !old.flat().every((path) => existsSync(path))) return undefined;
  return {
    share() {
      // An agent that was killed may have left programs that pass on: connections of the next table are known to that alone.
      for (const [phase = ''] of old)
        writePhase(phase, { passesOn: passesOn(phase), ports: PORTS.even });
      const [phase = ''] = pins(pinFolder(known.bpfRoot).maps);
      writePhase(phase, { passesOn: false, ports: PORTS.odd });
    },
    begin() {
      try {
        for (const [, programs = ''] of old) withMap(programs, (map) => putPrograms(map, next));
      } catch {
        return false;
      }
      for (const [phase = ''] of old) writePhase(phase, { passesOn: true, ports: PORTS.even });
      return true;
    },
  };
}

/** When no program of a former table runs any more, or an agent was killed that had not come so far. */
export function giveAllPorts({ bpfRoot, versions }: Pick<Known, 'bpfRoot' | 'versions'>): void {
  const path = join(pinFolder(bpfRoot).maps, mapPin('fl_phase', versions));
  if (existsSync(path))
    withMap(path, (map) => map.put(ELEMENT, new Uint8Array(map.info.valueSize)));
}

function putPrograms(map: BpfMap, next: NextPrograms): void {
  for (const [at, name] of DEVICE_PROGRAMS.entries()) {
    const program = next.get(name);
    if (program !== undefined) map.putProgram(encodeU32(at), program);
  }
}

interface Phase {
  readonly passesOn: boolean;
  readonly ports: (typeof PORTS)[keyof typeof PORTS];
}

/** struct table_phase of bpf/packet/types.h. */
function writePhase(path: string, { passesOn, ports }: Phase): void {
  const value = Buffer.concat([encodeU32(Number(passesOn)), encodeU32(ports)]);
  withMap(path, (map) => map.put(ELEMENT, value));
}

const passesOn = (path: string): boolean =>
  withMap(path, (map) => map.get(ELEMENT)?.some((byte, at) => at < 4 && byte > 0) ?? false);

function withMap<T>(path: string, use: (map: BpfMap) => T): T {
  const map = openPinnedMap(path);
  try {
    return use(map);
  } finally {
    map.close();
  }
}
