// SPDX-License-Identifier: Apache-2.0
// What programs write into maps of an earlier generation while their links are being replaced.

import { join } from 'node:path';
import { type BpfMap, openPinnedMap, waitGracePeriod } from '../../../../sys/native.ts';
import { encodeU32 } from '../../layout/layout.ts';
import { mapPin, parseMapPin } from '../../layout/versions.ts';
import { entriesOf, merge, putAbsent, TYPE } from '../../migration/entries.ts';
import { fieldAt } from '../../migration/fields.ts';
import { pinFolder, pinsIn } from '../loader/pins.ts';
import { fieldsOf, type Known } from './changes.ts';
import { openTableCarry, type TableCarry, type TablePart } from './conn-table-carry.ts';
import { addCounters } from './counters.ts';
import { oldGenerations, removeOtherGenerations } from './generations.ts';
import { closePairs, fillPair, openPairs, type Pair } from './pairs.ts';
import { giveAllPorts, type NextPrograms, passingTo } from './passing.ts';
import { removeFields } from './records.ts';
import { carryStorage, type StoragePart } from './storage.ts';

export interface Carry {
  /** Those that got another layout or size. */
  readonly maps: readonly string[];
  /**
   * Before the links of a layer are replaced. Returns whether there was anything.
   *
   * @param next programs of devices that take the others' place; absent: first packets wait
   */
  before(layer: 'sockets' | 'flows', next?: NextPrograms): Promise<boolean>;
  /** Before each link of flows is replaced: on a busy node a hold may have ended since the last one. */
  hold(): void;
  /** The links of flows were replaced: connections begin again. */
  release(): void;
  /** All links were replaced. */
  linked(): Promise<void>;
  /** When none of the old programs runs any more. Removes what they used. */
  after(): Promise<void>;
  close(): void;
}

export const NOTHING_TO_CARRY: Carry = {
  maps: [],
  before: async () => false,
  hold: () => undefined,
  release: () => undefined,
  linked: async () => undefined,
  after: async () => undefined,
  close: () => undefined,
};

export interface CarryOptions extends Known {
  /** No program has used the maps yet. */
  readonly isFresh: boolean;
  /** undefined: records in the storage of sockets stay behind. */
  readonly storage?: StoragePart | undefined;
  /** undefined: connections of packets stay behind. */
  readonly table?: TablePart | undefined;
  readonly step?: ((name: string) => void) | undefined;
}

export function carryOver(options: CarryOptions): Carry {
  const { isFresh, storage, table, step = () => undefined, ...known } = options;
  const { bpfRoot } = known;
  const generations = oldGenerations(bpfRoot).map((old) =>
    openPairs(known, old, pinFolder(bpfRoot).maps),
  );
  const pairs = generations.flat();
  const copied = new Map<Pair, ReadonlySet<string>>();
  let carrier: TableCarry | undefined;
  const close = (): void => {
    carrier?.close();
    carrier = undefined;
    closePairs(pairs.splice(0));
  };
  const isHeld = pairs.some(({ carrying }) => carrying === 'flows' || carrying === 'table');
  let heldMs = 0;
  let isPassing = false;
  const hold = (): void => {
    if (!isHeld || isPassing) return;
    holdFlows(known);
    heldMs = performance.now();
  };
  const release = (): void => {
    if (isHeld) releaseFlows(known);
  };
  /** Most is carried while connections begin: what is held has to wait for the rest alone. */
  const carryFlows = async (mine: readonly Pair[], next?: NextPrograms): Promise<void> => {
    carrier ??= table && (await openTableCarry(generations, table));
    const passing = next && passingTo(known, next);
    passing?.share();
    // Programs that run now have not seen it.
    if (passing !== undefined) await waitGracePeriod();
    carrier?.round(() => undefined);
    isPassing = passing?.begin() ?? false;
    hold();
    await waitGracePeriod();
    for (const pair of mine) merge(pair.from, pair.to, { ...pair, onBatch: hold });
    carrier?.catchUp(hold);
    hold();
  };
  return {
    hold() {
      if (isPassing) return;
      const hasEnded = performance.now() - heldMs > HOLD_SECONDS * 1000;
      hold();
      if (!hasEnded) return;
      for (const pair of pairs.filter(({ carrying }) => carrying === 'flows'))
        merge(pair.from, pair.to, { ...pair, onBatch: hold });
      carrier?.round(hold);
    },
    release,
    maps: [...new Set(pairs.map(({ map }) => map))],
    async before(layer, next) {
      step(`carrying ${layer}`);
      const mine = pairs.filter(({ carrying }) => carrying === layer);
      const isAny = mine.length > 0 || (layer === 'flows' && isHeld);
      for (const pair of mine) {
        if (isFresh) fillPair(pair);
        else merge(pair.from, pair.to, pair);
        if (isKeyedBySocket(pair)) copied.set(pair, keysOf(pair));
      }
      if (layer === 'sockets') await carryStored(pairs, storage);
      if (layer === 'flows' && isHeld) await carryFlows(mine, next);
      step(layer === 'flows' ? 'replacing links' : 'replacing hooks');
      return isAny;
    },
    async linked() {
      step('carrying the rest');
      release();
      await carryStored(pairs, storage);
      for (const pair of pairs) carryRest(pair, copied.get(pair));
      carrier?.round(() => undefined);
    },
    async after() {
      step('carrying the last');
      for (const pair of pairs) {
        carryRest(pair, copied.get(pair));
        if (pair.carrying === 'counters') addCounters(pair);
      }
      carrier?.round(() => undefined);
      carrier?.finish();
      giveAllPorts(known);
      close();
      step('removing old maps');
      removeOtherGenerations(bpfRoot);
      removeFields(bpfRoot, (pin) => parseMapPin(pin) === undefined || isOwnVersion(known, pin));
      step('done');
    },
    close,
  };
}

/** Before Linux 5.11 no program can: a start without these records is better than none. */
async function carryStored(
  pairs: readonly Pair[],
  storage: StoragePart | undefined,
): Promise<void> {
  if (storage === undefined) return;
  for (const pair of pairs.filter(({ carrying }) => carrying === 'storage')) {
    try {
      await carryStorage(pair, storage);
    } catch (error) {
      storage.lost(pair.map, error);
    }
  }
}

function isOwnVersion({ versions }: Known, pin: string): boolean {
  const map = parseMapPin(pin)?.map;
  return map !== undefined && mapPin(map, versions) === pin;
}

function carryRest(
  pair: Pair & { onBatch?: () => void },
  copied: ReadonlySet<string> | undefined,
): void {
  if (copied !== undefined) carrySockets(pair, copied);
  else if (pair.carrying === 'sockets' || pair.carrying === 'flows')
    merge(pair.from, pair.to, pair);
}

/** Their entries live as long as a socket: one that was closed meanwhile, by whichever program, has none. */
const isKeyedBySocket = ({ carrying, to }: Pair): boolean =>
  carrying === 'sockets' && to.info.type === TYPE.hash;

function carrySockets({ from, to, converts }: Pair, copied: ReadonlySet<string>): void {
  const left = new Set<string>();
  for (const { key, value } of entriesOf(from)) {
    const text = hex(key);
    left.add(text);
    if (!copied.has(text)) putAbsent(to, converts.key(key), converts.value(value));
  }
  for (const text of copied) if (!left.has(text)) to.delete(converts.key(Buffer.from(text, 'hex')));
}

const keysOf = ({ from }: Pair): ReadonlySet<string> =>
  new Set([...entriesOf(from)].map(({ key }) => hex(key)));

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

// Unless the programs can call the next ones, no connection begins while flows are carried over: it would be known to the old programs or to the new ones, and a packet passes
// both while links are being replaced. First packets are dropped; their clients send them again. Datagrams nobody would.

/** HOLD_SECONDS of bpf/packet/types.h. */
export const HOLD_SECONDS = 2;

/** For two to three seconds: it ends by itself if the agent is killed. */
function holdFlows(known: Known): void {
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
