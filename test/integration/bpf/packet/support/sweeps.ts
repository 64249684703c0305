// SPDX-License-Identifier: Apache-2.0
// The sweep of bpf/packet/sweep.bpf.c on the maps of a drive.
import { readFileSync } from 'node:fs';
import { createSweep, type Sweep } from '../../../../../src/dataplane/bpf/flows/sweep/sweep.ts';
import { encodeU32 } from '../../../../../src/dataplane/bpf/maps/layout.ts';
import { reasonOf } from '../../../../../src/errors.ts';
import { type BpfObject, openObject } from '../../../../../src/sys/native.ts';
import { type Drive, sweepObject } from '../../support/drive.ts';

/** Kernels before 5.14 refuse the program: there the agent deletes what has expired. Another test counts on newer ones to load it. */
export function refusal(): string | undefined {
  const program = openObject(readFileSync(sweepObject), { name: 'sweep' });
  try {
    program.load();
    return undefined;
  } catch (error) {
    return `the kernel refuses the sweep: ${reasonOf(error).split('\n', 1)[0]}`;
  } finally {
    program.close();
  }
}

const loaded = new Map<Drive, BpfObject>();

/** Loaded once for a drive. Call it at the top of a test or of a beforeEach. */
export function kernelSweep(drive: Drive): Sweep {
  const object = loaded.get(drive) ?? load(drive);
  loaded.set(drive, object);
  const [program, swept] = [object.program('fl_sweep'), object.map('fl_swept')];
  return createSweep({
    run: (contextIn) => program.testRun({ contextIn }).retval,
    swept: () => swept.get(encodeU32(0)) ?? new Uint8Array(),
    capacity: (map) => object.map(map).info.maxEntries,
  });
}

function load(drive: Drive): BpfObject {
  const object = openObject(readFileSync(sweepObject), { name: 'sweep' });
  for (const name of object.maps) {
    if (!drive.object.maps.includes(name) || name.includes('.')) continue;
    const map = drive.object.map(name);
    object.setMaxEntries(name, map.info.maxEntries);
    object.reuseMap(name, map);
  }
  object.load();
  return object;
}
