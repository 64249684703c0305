// SPDX-License-Identifier: Apache-2.0
// Loads objects of this build, as a whole or some of their programs, without pinning anything.
import { existsSync, readFileSync } from 'node:fs';
import type { BpfMap, BpfObject, BpfProgram } from '../../../../sys/native.ts';
import * as native from '../../../../sys/native.ts';
import { bpfObjectPath } from '../../../../sys/package.ts';
import { CouldNotTell } from '../../../../sys/probe-sandbox.ts';
import type { Rodata } from '../../layer.ts';
import { maxEntries } from '../../layout/sizes.ts';

/** So small that a probe takes no memory to speak of. */
export const TABLE_SIZES = {
  frontends: 16,
  backends: 16,
  'service-ports': 16,
  'slot-blocks': 64,
  affinity: 16,
  'source-ranges': 16,
  flows: 64,
};

export const SMALL = maxEntries(TABLE_SIZES);

/** Throws CouldNotTell. */
export function readObject(name: string): Uint8Array {
  const path = bpfObjectPath(name);
  if (!existsSync(path)) {
    throw new CouldNotTell(`${path} is missing: build it with \`npm run build:bpf\``);
  }
  return readFileSync(path);
}

export interface ObjectChoice {
  /** `probe.bpf.o`. */
  readonly name: string;
  /** The others are not loaded. */
  readonly programs: readonly string[];
  readonly rodata?: Rodata;
}

export interface LoadedParts {
  map(name: string): BpfMap;
  program(name: string): BpfProgram;
}

/** Loads the object, runs `work`, and lets go of everything. Throws the kernel's refusal. */
export async function withObject<T>(
  { name, programs, rodata = {} }: ObjectChoice,
  work: (parts: LoadedParts) => T | Promise<T>,
): Promise<T> {
  const object = native.openObject(readObject(name), { name: 'fl_probe' });
  const handles: { close(): void }[] = [object];
  const kept = <Handle extends { close(): void }>(handle: Handle): Handle => {
    handles.push(handle);
    return handle;
  };
  try {
    prepare(object, programs, rodata);
    object.load();
    return await work({
      map: (map) => kept(object.map(map)),
      program: (program) => kept(object.program(program)),
    });
  } finally {
    for (const handle of handles.reverse()) handle.close();
  }
}

function prepare(object: BpfObject, wanted: readonly string[], rodata: Rodata): void {
  for (const [variable, value] of Object.entries(rodata)) object.setRodata(variable, value);
  for (const map of object.maps) {
    const size = SMALL[map];
    if (size !== undefined) object.setMaxEntries(map, size);
  }
  for (const { name } of object.programs) object.setAutoload(name, wanted.includes(name));
}
