// SPDX-License-Identifier: Apache-2.0
// A separate copy of the maps with the drive programs, filled by tests: the `put` functions take plain records,
// `select` runs selection once through PROG_TEST_RUN.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { withCast } from '../../../../src/engines/bpf/kernel/loader/cast.ts';
import {
  ADDRESS_SCOPE,
  BACKEND_STATE,
  blocksFor,
  decodeU32,
  EMPTY_SET,
  encodeBackend,
  encodeFrontend,
  encodeFrontendKey,
  encodeRange,
  encodeRangeKey,
  encodeU32,
  hasTable,
  NODE_PORTS_OFFSET,
  POSITION,
  POSITIONS,
  PROTOCOL_NUMBER,
  type RulePosition,
  type RuleValue,
  type SetKind,
  type SetRef,
  SIZE,
  SLOTS_PER_BLOCK,
} from '../../../../src/engines/bpf/layout/layout.ts';
import { addressBytes, addressText } from '../../../../src/lib/address-bytes.ts';
import type { Family, Protocol } from '../../../../src/model/types.ts';
import { type BpfObject, openObject } from '../../../../src/sys/native.ts';

const built = (path: string): string =>
  fileURLToPath(new URL(`../../../../build/${path}`, import.meta.url));
export const driveObject = built('bpf-test/drive.bpf.o');
export const socketObject = built('bpf/sock.bpf.o');
export const packetObject = built('bpf/packet.bpf.o');
export const xdpObject = built('bpf/xdp.bpf.o');
export const sweepObject = built('bpf/sweep.bpf.o');
export const recycleObject = built('bpf-test/recycle.bpf.o');
export const classifyObject = built('bpf-test/classify.bpf.o');

const VERDICT = ['leave', 'translate', 'refuse', 'drop'] as const;
/** fl_drive_pos: its result is not a verdict of XDP. */
const POSITION_BASE = 16;
/** With the padding before the choice. */
const REQUEST_SIZE = 80;
const DRIVE_SIZE = 136;

export interface Request {
  readonly to: string;
  readonly port: number;
  readonly protocol?: Protocol;
  readonly position?: RulePosition;
  readonly source?: string;
  readonly sourcePort?: number;
  /** The source is the address of the packet. */
  readonly isPacket?: boolean;
  /** The address that the socket is bound to. */
  readonly bound?: string;
  readonly mayChooseAnew?: boolean;
  readonly sourceIsLoopback?: boolean;
  readonly flow?: { readonly id: number; readonly serviceId: number; readonly generation: number };
}

export interface Choice {
  readonly verdict: (typeof VERDICT)[number];
  readonly backend: string;
  readonly id: number;
  readonly reason: number;
  readonly isKept: boolean;
  readonly byAffinity: boolean;
  readonly masquerade: boolean;
}

export const familyOf = (address: string): Family => (address.includes(':') ? 'IPv6' : 'IPv4');

/** struct address: IPv4 is v4-mapped. */
function wideAddress(address: string): Uint8Array {
  const bytes = addressBytes(address, familyOf(address));
  if (bytes.length === 16) return bytes;
  return Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, ...bytes]);
}

/** struct drive with the request filled in (bpf/test/drive.bpf.c). */
export function encodeRequest(request: Request): Uint8Array {
  const bytes = new Uint8Array(DRIVE_SIZE);
  const view = new DataView(bytes.buffer);
  bytes.set(wideAddress(request.to), 0);
  bytes.set(wideAddress(request.source ?? '192.0.2.7'), 16);
  view.setUint32(32, request.flow?.id ?? 0, true);
  view.setUint32(36, request.flow?.serviceId ?? 0, true);
  view.setUint16(40, request.flow?.generation ?? 0, true);
  view.setUint16(44, request.sourcePort ?? 0, true);
  view.setUint16(48, request.port, true);
  bytes[50] = PROTOCOL_NUMBER[request.protocol ?? 'TCP'];
  bytes[51] = POSITION[request.position ?? 'host'];
  bytes[52] = Number(request.sourceIsLoopback ?? false);
  bytes[53] = Number(request.mayChooseAnew ?? true);
  bytes[54] = Number(request.isPacket ?? false);
  if (request.bound !== undefined) bytes.set(wideAddress(request.bound), 56);
  return bytes;
}

/** Decodes struct choice at offset `at`. */
export function decodeChoice(bytes: Uint8Array, at = REQUEST_SIZE): Choice {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at);
  const wide = bytes.subarray(at, at + 16);
  const isMapped = wide[10] === 255 && wide[11] === 255 && wide.subarray(0, 10).every((b) => !b);
  const address = isMapped ? addressText(wide.subarray(12)) : `[${addressText(wide)}]`;
  return {
    verdict: VERDICT[view.getUint8(44)] ?? 'leave',
    backend: `${address}:${view.getUint16(40, true)}`,
    id: view.getUint32(16, true),
    reason: view.getUint32(28, true),
    isKept: view.getUint8(45) !== 0,
    byAffinity: view.getUint8(46) !== 0,
    masquerade: view.getUint8(47) !== 0,
  };
}

/** One traffic rule of a frontend; by default the set is empty and connections are refused. */
export interface RuleSpec {
  readonly set?: SetRef;
  readonly whenEmpty?: 'reject' | 'drop';
  readonly masquerade?: boolean;
  readonly keepsLocalClient?: boolean;
  readonly hasSourceRanges?: boolean;
  readonly returnsDirectly?: boolean;
  readonly inIpip?: boolean;
  readonly hasBase?: boolean;
}

export const PLAIN_RULE = {
  whenEmpty: 'reject',
  masquerade: false,
  keepsLocalClient: false,
  hasSourceRanges: false,
} as const;

export interface FrontendSpec {
  /** undefined: the wildcard. */
  readonly address?: string;
  readonly family?: Family;
  readonly port: number;
  readonly protocol?: Protocol;
  readonly affinitySeconds?: number;
  /** By client position; the default is the rule of the host. */
  readonly rules?: Readonly<Partial<Record<RulePosition, RuleSpec>>>;
}

export interface BackendSpec {
  readonly id: number;
  readonly address: string;
  readonly port: number;
  readonly serviceId?: number;
  readonly generation?: number;
  readonly state?: keyof typeof BACKEND_STATE;
  readonly isLocal?: boolean;
}

interface LoadOptions {
  readonly rodata?: Readonly<Record<string, Uint8Array>>;
  readonly leftOut?: readonly string[];
}

export class Drive {
  readonly object: BpfObject;
  #frontends = 0;

  /**
   * @param sizes elements of maps
   * @param path of an object that has the maps of common/maps.h
   * @param rodata settings that are written before load
   * @param leftOut programs that no test runs: most of a load is the verifier's work
   */
  constructor(
    sizes: Readonly<Record<string, number>> = {},
    path = driveObject,
    { rodata = {}, leftOut = [] }: LoadOptions = {},
  ) {
    this.object = openObject(withCast(readFileSync(path), rodata), { name: 'drive' });
    for (const [name, value] of Object.entries(rodata)) this.object.setRodata(name, value);
    for (const name of leftOut) this.object.setAutoload(name, false);
    for (const name of this.object.maps) {
      if (/^fl_(be|fr|fe|slot|traf)/.test(name)) this.shrink(name);
    }
    this.object.setMaxEntries('fl_range', 1024);
    for (const [name, size] of Object.entries(sizes)) this.object.setMaxEntries(name, size);
    this.object.load();
  }

  private shrink(map: string): void {
    this.object.setMaxEntries(map, 8192);
  }

  close(): void {
    this.object.close();
  }

  /** Once the maps have been emptied. */
  countFrontendsAnew(): void {
    this.#frontends = 0;
  }

  /** A set of service id 1. Ids are written in the given order, which should be ascending. */
  putSet(block: number, ids: readonly number[], serviceId = 1): SetRef {
    if (ids.length === 0) return EMPTY_SET;
    const slots = new Uint32Array(this.object.map('fl_slot_block').mmap());
    slots.set([serviceId, ...ids], block * SLOTS_PER_BLOCK);
    return { block, members: ids.length, kind: 'random' };
  }

  /** A set of another kind, with the table that it chooses from if it has one. */
  putSetOfKind(
    kind: SetKind,
    block: number,
    ids: readonly number[],
    table: readonly number[] = [],
  ): SetRef {
    const set = { ...this.putSet(block, ids), kind };
    const slots = new Uint32Array(this.object.map('fl_slot_block').mmap());
    const at = (block + blocksFor(ids.length)) * SLOTS_PER_BLOCK;
    if (hasTable(kind)) slots.set([table.length, ...table], at);
    return set;
  }

  /** Behind a set that is there, with a table of so many entries if its kind has one. */
  putBase({ block, members }: SetRef, entries: number | undefined, base: readonly number[]): void {
    const slots = new Uint32Array(this.object.map('fl_slot_block').mmap());
    const at = block + blocksFor(members) + (entries === undefined ? 0 : blocksFor(entries));
    slots.set([base.length, ...base, 0], at * SLOTS_PER_BLOCK);
  }

  /** A frontend that is put again keeps its id. */
  putFrontend({ address, port, protocol = 'TCP', ...spec }: FrontendSpec): number {
    const family = spec.family ?? familyOf(address ?? '0.0.0.0');
    const rule = (position: RulePosition): RuleValue => {
      const { set = EMPTY_SET, ...rest } = spec.rules?.[position] ?? spec.rules?.host ?? {};
      return { ...set, ...PLAIN_RULE, ...rest };
    };
    const key = { family, address, port, protocol };
    const rules = {
      unknown: rule('unknown'),
      host: rule('host'),
      pod: rule('pod'),
      outside: rule('outside'),
    };
    const keyBytes = encodeFrontendKey(key);
    const ids = this.object.map(family === 'IPv4' ? 'fl_frontend4' : 'fl_frontend6');
    const held = ids.get(keyBytes);
    const id = held === undefined ? ++this.#frontends : decodeU32(held);
    const { affinitySeconds = 0 } = spec;
    const value = { key, rules, serviceId: 1, affinitySeconds };
    this.object.map('fl_frontend').put(encodeU32(id), encodeFrontend(value));
    if (held === undefined) ids.put(keyBytes, encodeU32(id));
    return id;
  }

  putBackend(spec: BackendSpec): void {
    const family = familyOf(spec.address);
    const value = {
      address: spec.address,
      port: spec.port,
      state: BACKEND_STATE[spec.state ?? 'ACTIVE'],
      isLocal: spec.isLocal ?? false,
      serviceId: spec.serviceId ?? 1,
      generation: spec.generation ?? 1,
    };
    const map = this.object.map(family === 'IPv4' ? 'fl_backend4' : 'fl_backend6');
    map.put(encodeU32(spec.id), encodeBackend(value, family));
  }

  putNodeAddress(address: string, scope: keyof typeof ADDRESS_SCOPE): void {
    const family = familyOf(address);
    const value = new Uint8Array(SIZE.node_address);
    value[0] = ADDRESS_SCOPE[scope];
    const map = this.object.map(family === 'IPv4' ? 'fl_node_addr4' : 'fl_node_addr6');
    map.put(addressBytes(address, family), value);
  }

  /** @param serviceId 0: addresses of pods */
  putRange(serviceId: number, prefix: string): void {
    const kind = serviceId === 0 ? 'pod' : 'allowed';
    const family = familyOf(prefix);
    this.object
      .map('fl_range')
      .put(encodeRangeKey({ serviceId, prefix }), encodeRange(kind, family));
  }

  forgetAffinity(): void {
    const map = this.object.map('fl_affinity');
    const { keys, count } = map.readAll();
    if (count > 0) map.deleteBatch(keys);
  }

  /** Of a packet with this source. */
  positionOf(source: string): RulePosition {
    const program = this.object.program('fl_drive_pos');
    const dataIn = encodeRequest({ to: source, port: 0 });
    const { retval } = program.testRun({ dataIn });
    const found = POSITIONS.find((position) => POSITION[position] === retval - POSITION_BASE);
    if (found === undefined) throw new Error(`fl_drive_pos returned ${retval}`);
    return found;
  }

  putNodePorts(count: number): void {
    new DataView(this.object.map('fl_runtime').mmap()).setUint32(NODE_PORTS_OFFSET, count, true);
  }

  /** The backend ids that so many new connections get, all on one CPU. */
  inOrder(request: Request, times: number): readonly number[] {
    const order = new BigUint64Array(this.object.map('fl_order').mmap());
    order.fill(0n);
    const dataIn = encodeRequest(request);
    this.object.program('fl_drive_order').testRun({ dataIn, repeat: times });
    return Array.from(order.subarray(1, 1 + Number(order[0])), Number);
  }

  select(request: Request): Choice {
    const program = this.object.program('fl_drive_select');
    const run = program.testRun({ dataIn: encodeRequest(request), dataOutSize: DRIVE_SIZE });
    if (run.retval !== 2) throw new Error(`fl_drive_select returned ${run.retval}`);
    return decodeChoice(run.dataOut);
  }
}
