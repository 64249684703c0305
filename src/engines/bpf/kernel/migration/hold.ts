// SPDX-License-Identifier: Apache-2.0
// No connection begins while flows are carried over: it would be known to the old programs or to the new ones, and a packet passes
// both while links are being replaced. First packets are dropped; their clients send them again. Datagrams nobody would.
import { join } from 'node:path';
import { type BpfMap, openPinnedMap } from '../../../../sys/native.ts';
import { encodeU32 } from '../../layout/layout.ts';
import { parseMapPin } from '../../layout/versions.ts';
import { fieldAt } from '../../migration/fields.ts';
import { pinFolder, pinsIn } from '../loader/pins.ts';
import { fieldsOf, type Known } from './changes.ts';
import { oldGenerations } from './generations.ts';

/** HOLD_SECONDS of bpf/packet/types.h. */
export const HOLD_SECONDS = 2;

/** For two to three seconds: it ends by itself if the agent is killed. */
export function holdFlows(known: Known): void {
  const now = Number(process.hrtime.bigint() / 1_000_000_000n);
  // 0 stands for never.
  writeHold(known, (now + HOLD_SECONDS) & 0xffff || 1);
}

export const releaseFlows = (known: Known): void => writeHold(known, 0);

/** For the programs of all generations; earlier versions had no such field. */
function writeHold(known: Known, until: number): void {
  const { maps } = pinFolder(known.bpfRoot);
  for (const folder of [maps, ...oldGenerations(known.bpfRoot)]) {
    for (const pin of pinsIn(folder).filter((name) => parseMapPin(name)?.map === 'fl_packet')) {
      const path = join(folder, pin);
      const map = openPinnedMap(path);
      try {
        const fields = fieldsOf(known, path).value;
        const field = fieldAt({ fields, bytes: map.info.valueSize }, /^hold_until$/);
        if (field !== undefined) writeField(map, field.at, until);
      } finally {
        map.close();
      }
    }
  }
}

function writeField(map: BpfMap, at: number, value: number): void {
  const settings = map.get(encodeU32(0));
  if (settings === undefined) return;
  new DataView(settings.buffer, settings.byteOffset).setUint16(at, value, true);
  map.put(encodeU32(0), settings);
}
