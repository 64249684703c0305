// SPDX-License-Identifier: Apache-2.0
// The sweep of bpf/packet/sweep.bpf.c on the maps of a drive.
import { readFileSync } from 'node:fs';
import { connRodata } from '../../../../../src/engines/bpf/conn/sizes.ts';
import { createSweep, type Sweep } from '../../../../../src/engines/bpf/flows/sweep/sweep.ts';
import { encodeU32 } from '../../../../../src/engines/bpf/layout/layout.ts';
import type { Family } from '../../../../../src/model/types.ts';
import {
  type BpfMap,
  type BpfObject,
  type BpfProgram,
  openObject,
} from '../../../../../src/sys/native.ts';
import { type Drive, sweepObject } from '../../support/drive.ts';
import { emptierOf } from '../../support/emptied.ts';

interface Loaded {
  readonly object: BpfObject;
  /** One descriptor of each: those of many tests are closed by the garbage collector, too late. */
  readonly program: BpfProgram;
  readonly swept: BpfMap;
  /** Makes the maps that are not the drive's as they were when they were created. */
  readonly empty: readonly (() => void)[];
}

const loaded = new Map<Drive, Loaded>();

/** Loaded once for a drive, with nothing in its own maps. Call it at the top of a test or of a beforeEach. */
export function kernelSweep(drive: Drive): Sweep {
  const { object, program, swept, empty } = loaded.get(drive) ?? load(drive);
  for (const one of empty) one();
  return createSweep({
    run: (dataIn) => program.testRun({ dataIn }).retval,
    swept: () => swept.get(encodeU32(0)) ?? new Uint8Array(),
    buckets: (family) => bucketsOf(object, family),
  });
}

const bucketsOf = (object: BpfObject, family: Family): number =>
  object.map(family === 'IPv4' ? 'fl_client4' : 'fl_client6').info.maxEntries;

function load(drive: Drive): Loaded {
  const object = openObject(readFileSync(sweepObject), { name: 'sweep' });
  const sizes = {
    fl_client4: bucketsOf(drive.object, 'IPv4'),
    fl_client6: bucketsOf(drive.object, 'IPv6'),
  };
  for (const [name, value] of Object.entries(connRodata(sizes))) object.setRodata(name, value);
  const shared = new Set(drive.object.maps);
  const maps = object.maps.filter((name) => !name.includes('.'));
  for (const name of maps.filter((of) => shared.has(of))) {
    const map = drive.object.map(name);
    object.setMaxEntries(name, map.info.maxEntries);
    object.reuseMap(name, map);
  }
  object.load();
  const own = maps.filter((name) => !shared.has(name));
  const parts = {
    object,
    program: object.program('fl_sweep'),
    swept: object.map('fl_swept'),
    empty: own.map((name) => emptierOf(object.map(name))),
  };
  loaded.set(drive, parts);
  return parts;
}
