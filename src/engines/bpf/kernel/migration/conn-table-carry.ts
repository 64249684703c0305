// SPDX-License-Identifier: Apache-2.0
// The table of connections of another size: a program puts each record into the other one (bpf/packet/carry_conn.bpf.c),
// while the packet programs use both. More than once: each round brings what has begun, changed or ended meanwhile.
import { FAMILIES, type Family } from '../../../../model/types.ts';
import type { BpfMap, BpfProgram } from '../../../../sys/native.ts';
import { tickOfNow } from '../../conn/clock.ts';
import { digitOf } from '../../conn/conn-table.ts';
import { CONN_HALF, CONN_SIZE, CONN_SLOTS, TICKS_PER_SECOND } from '../../layout/conn-layout.ts';
import { encodeU32 } from '../../layout/layout.ts';
import { decodeKeptSettings } from '../../layout/packet-layout.ts';
import { type Loaded, type LoadOptions, loadLayer } from '../loader/load.ts';
import { takeBack, type Undo } from '../loader/undo.ts';
import type { Pair } from './pairs.ts';

export interface TablePart {
  /** carry_conn.bpf.o */
  readonly object: () => Uint8Array;
  readonly options: LoadOptions;
}

export interface TableCarry {
  /** @param onPart called before each part, of some milliseconds */
  round(onPart: () => void): void;
  /** The same, but what has ended is left for the next round: the larger table need not be looked through. */
  catchUp(onPart: () => void): void;
  /** After the last round: what is in the other table is counted no longer, and never carried again. */
  finish(): void;
  close(): void;
}

/** struct carrying: behind struct conn_env the round, and the next bucket. */
const AT = { secret: 0, now: 8, udpNew: 12, round: 104, bucket: 108 } as const;
const PART_BUCKETS = 4_096;
const FRAME = new Uint8Array(64);

type Names = 'fl_client' | 'fl_conn' | 'fl_conn_traf';
const FROM: Readonly<Record<Names, string>> = {
  fl_client: 'fl_from_client',
  fl_conn: 'fl_from_conn',
  fl_conn_traf: 'fl_from_traf',
};

/**
 * Of every generation that an agent has left which was killed: programs use one of them, and the latest may be none that they
 * use. undefined: the table is the same, or has records of another layout, which nothing converts.
 */
export async function openTableCarry(
  generations: readonly (readonly Pair[])[],
  part: TablePart,
): Promise<TableCarry | undefined> {
  const carriers: Carrier[] = [];
  const close = (): void => {
    for (const carrier of carriers) carrier.close();
  };
  try {
    for (const pairs of generations) {
      const carrier = await openCarrier(pairs, part);
      if (carrier !== undefined) carriers.push(carrier);
    }
  } catch (error) {
    close();
    throw error;
  }
  const [last] = carriers.slice(-1);
  if (last === undefined) return undefined;
  const families = FAMILIES.filter((one) =>
    carriers.some(({ families: carried }) => carried.includes(one)),
  );
  let rounds = 0;
  const catchUp = (onPart: () => void): void => {
    rounds += 1;
    for (const carrier of carriers) carrier.carry(rounds, onPart);
  };
  return {
    round(onPart) {
      catchUp(onPart);
      last.drop(rounds, families, onPart);
    },
    catchUp,
    finish() {
      for (const carrier of carriers) carrier.finish();
    },
    close,
  };
}

async function openCarrier(
  pairs: readonly Pair[],
  { object, options }: TablePart,
): Promise<Carrier | undefined> {
  const families = FAMILIES.filter((family) => isCarried(pairs, family) && !isOver(pairs, family));
  if (families.length === 0) return undefined;
  const from = fromMaps(pairs, families);
  const sizes = Object.fromEntries([...from].map(([name, map]) => [name, map.info.maxEntries]));
  const undo: Undo = [];
  try {
    const objects = [{ bytes: object(), rodata: [{}] }];
    const layer = { name: 'carry of connections', objects, hooks: [] };
    const all = { ...options, sizes: { ...options.sizes, ...sizes }, maps: from };
    const loaded = await loadLayer(layer, all, undo);
    return new Carrier(loaded, { families, maps: from }, () => takeBack(undo));
  } catch (error) {
    takeBack(undo);
    throw error;
  }
}

/** It may grow in one family alone. */
const isCarried = (pairs: readonly Pair[], family: Family): boolean =>
  Object.keys(FROM).every((name) => {
    const pair = pairs.find(({ map }) => map === `${name}${digitOf(family)}`);
    return pair !== undefined && pair.from.info.valueSize === pair.to.info.valueSize;
  });

/** An agent has carried it to the end, and was killed before it removed the maps. */
function isOver(pairs: readonly Pair[], family: Family): boolean {
  const client = pairs.find(({ map }) => map === `fl_client${digitOf(family)}`)?.from;
  const memory = client?.mmap();
  if (client === undefined || memory === undefined) return false;
  const over = new Uint32Array(memory)[OVER_AT] === OVER;
  client.munmap(memory);
  return over;
}

function fromMaps(
  pairs: readonly Pair[],
  families: readonly Family[],
): ReadonlyMap<string, BpfMap> {
  const names = new Map<string, string>(
    families.flatMap((family) =>
      Object.entries(FROM).map(([name, former]) => [
        `${name}${digitOf(family)}`,
        `${former}${digitOf(family)}`,
      ]),
    ),
  );
  return new Map(
    pairs.flatMap(({ map, from }) => {
      const name = names.get(map);
      return name === undefined ? [] : [[name, from]];
    }),
  );
}

interface From {
  readonly families: readonly Family[];
  readonly maps: ReadonlyMap<string, BpfMap>;
}

class Carrier {
  readonly #loaded: Loaded;
  readonly #from: From;
  readonly #state: DataView;
  readonly close: () => void;

  constructor(loaded: Loaded, from: From, close: () => void) {
    this.#loaded = loaded;
    this.#from = from;
    this.#state = new DataView(mapOf(loaded.maps, 'fl_carrying').mmap());
    this.close = close;
  }

  get families(): readonly Family[] {
    return this.#from.families;
  }

  carry(round: number, onPart: () => void): void {
    for (const family of this.#from.families) {
      if (!this.#begin(round)) return;
      const { maxEntries } = mapOf(this.#from.maps, `fl_from_client${digitOf(family)}`).info;
      this.#run(`fl_carry${digitOf(family)}`, maxEntries, onPart);
    }
  }

  /** What no table has that is carried. */
  drop(round: number, families: readonly Family[], onPart: () => void): void {
    for (const family of families) {
      if (!this.#begin(round)) return;
      const { maxEntries } = mapOf(this.#loaded.maps, `fl_client${digitOf(family)}`).info;
      this.#run(`fl_drop${digitOf(family)}`, maxEntries, onPart);
    }
  }

  /** False: before the first sync there is no connection. */
  #begin(round: number): boolean {
    const settings = mapOf(this.#loaded.maps, 'fl_packet').get(encodeU32(0));
    const secret = settings && decodeKeptSettings(settings)?.secret;
    if (settings === undefined || secret === undefined) return false;
    const udpNewSeconds = new DataView(settings.buffer, settings.byteOffset).getUint32(24, true);
    this.#state.setBigUint64(AT.secret, secret, true);
    this.#state.setUint32(AT.now, tickOfNow(), true);
    this.#state.setUint32(AT.udpNew, udpNewSeconds * TICKS_PER_SECOND, true);
    this.#state.setUint32(AT.round, round, true);
    this.#state.setUint32(AT.bucket, 0, true);
    return true;
  }

  #run(name: string, buckets: number, onPart: () => void): void {
    const program = programOf(this.#loaded.programs, name);
    for (let first = 0; first < buckets; first += PART_BUCKETS) {
      onPart();
      program.testRun({ dataIn: FRAME, repeat: Math.min(PART_BUCKETS, buckets - first) });
    }
  }

  finish(): void {
    const counts = mapOf(this.#loaded.maps, 'fl_conn_count');
    const page = counts.mmap(0, PAGE);
    const memory = new BigUint64Array(page);
    for (const [row, family] of FAMILIES.entries()) {
      if (!this.#from.families.includes(family)) continue;
      const client = mapOf(this.#from.maps, `fl_from_client${digitOf(family)}`);
      const buckets = client.mmap();
      const words = new Uint32Array(buckets);
      // Two generations may share it.
      const { all, half } = words[OVER_AT] === OVER ? NONE : countIn(words);
      words[OVER_AT] = OVER;
      Atomics.add(memory, row * COUNTS + RELEASED, BigInt(all));
      Atomics.add(memory, row * COUNTS + HALF_GONE, BigInt(half));
      client.munmap(buckets);
    }
    counts.munmap(page);
  }
}

/** struct conn_counts. */
const COUNTS = 8;
const RELEASED = 1;
const HALF_GONE = 3;
const PAGE = 65_536;
const BUCKET_WORDS = CONN_SIZE.client_bucket / 4;
/** `elsewhere` of the first bucket, which no program reads any more. */
const OVER_AT = CONN_SLOTS;
const OVER = 0xffff_ffff;

interface Connections {
  readonly all: number;
  /** Of them: half-open. */
  readonly half: number;
}

const NONE: Connections = { all: 0, half: 0 };

function countIn(words: Uint32Array): Connections {
  let [all, half] = [0, 0];
  for (const [at, word] of words.entries()) {
    if (word === 0 || at % BUCKET_WORDS >= CONN_SLOTS) continue;
    all += 1;
    if ((word & CONN_HALF) !== 0) half += 1;
  }
  return { all, half };
}

function mapOf(maps: ReadonlyMap<string, BpfMap>, name: string): BpfMap {
  const map = maps.get(name);
  if (map === undefined) throw new TypeError(`no map ${name}`);
  return map;
}

function programOf(programs: ReadonlyMap<string, BpfProgram>, name: string): BpfProgram {
  const program = programs.get(name);
  if (program === undefined) throw new TypeError(`no program ${name}`);
  return program;
}
