// SPDX-License-Identifier: Apache-2.0
// struct operation of bpf/test/conn_drive.bpf.c: a record, and which of its two tuples is looked for.
import { addressBytes } from '../../../../../src/lib/address-bytes.ts';
import type { Family } from '../../../../../src/model/types.ts';

export const WHAT = {
  find: 0,
  findReply: 1,
  begin: 2,
  confirm: 3,
  release: 4,
  claim: 5,
  end: 6,
  endUnchanged: 7,
} as const;
export const PROTOCOL = { tcp: 6, udp: 17 } as const;
export const STATE = { new: 0, answered: 1, established: 2 } as const;

/** Ticks: see bpf/packet/conn/types.h. */
const TICKS_PER_SECOND = 60;
export const UDP_NEW = 30 * TICKS_PER_SECOND;

export const OPERATION_SIZE = 296;
export const RECORD_AT = 168;
/** Offsets in a record. */
export const AT = {
  state: 0,
  flags: 1,
  protocol: 5,
  id: 8,
  seen: 16,
  born: 20,
  ports: 40,
  backendPort: 44,
  replyPort: 46,
  marks: 38,
  addresses: 48,
} as const;

/** Of a test: all its addresses and ports follow from its number, but for what is given. */
export interface Connection {
  readonly id: number;
  readonly protocol?: keyof typeof PROTOCOL;
  readonly state?: keyof typeof STATE;
  readonly masquerade?: boolean;
  /** Of the node itself, unless told otherwise: without a second word in the index of replies. */
  readonly own?: boolean;
  /** 0: it has no reply tuple yet. */
  readonly replyPort?: number;
  readonly seen?: number;
}

/** Which tuple: of what its client sends, or its backend. */
export type Side = 'client' | 'reply';

export const SECRET = 0x0123456789abcdefn;
const CLIENT_PORT = 40_000;
export const RECORD_SIZE = { IPv4: 64, IPv6: 128 } as const;
const ADDRESS_SIZE = { IPv4: 4, IPv6: 16 } as const;
const FRONTEND = { IPv4: '10.96.0.10', IPv6: 'fd00::10' } as const;
const BACKEND = { IPv4: '10.1.2.5', IPv6: 'fd00:1::5' } as const;
const REPLY = { IPv4: '192.0.2.11', IPv6: 'fd00:2::11' } as const;

function clientOf(id: number, family: Family): Uint8Array {
  const last = [id >> 16, (id >> 8) & 255, id & 255] as const;
  if (family === 'IPv4') return Uint8Array.of(198, ...last);
  return Uint8Array.of(0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, ...last);
}

export function recordOf(connection: Connection, family: Family, now: number): Uint8Array {
  const { id, protocol = 'tcp', state = 'new', masquerade = true, seen = now } = connection;
  const { own = true } = connection;
  const { replyPort = masquerade ? 1_024 + id : CLIENT_PORT } = connection;
  const bytes = new Uint8Array(RECORD_SIZE[family]);
  const view = new DataView(bytes.buffer);
  bytes[AT.state] = STATE[state];
  bytes[AT.flags] = Number(masquerade);
  bytes[AT.protocol] = PROTOCOL[protocol];
  bytes[AT.marks] = Number(own);
  view.setUint32(AT.id, id, true);
  view.setUint32(AT.seen, seen, true);
  view.setUint32(AT.born, now, true);
  for (const [at, port] of [CLIENT_PORT, 80, 8080, replyPort].entries()) {
    view.setUint16(AT.ports + 2 * at, port, true);
  }
  const client = clientOf(id, family);
  const reply = masquerade ? addressBytes(REPLY[family], family) : client;
  const [frontend, backend] = [FRONTEND, BACKEND].map((of) => addressBytes(of[family], family));
  for (const [at, address] of [client, frontend!, backend!, reply].entries()) {
    bytes.set(address, AT.addresses + at * address.length);
  }
  return bytes;
}

/** struct address: IPv4 is v4-mapped. */
const wide = (bytes: Uint8Array): Uint8Array =>
  bytes.length === 16 ? bytes : Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, ...bytes);

export function operationOn(
  record: Uint8Array,
  side: Side,
  family: Family,
  now: number,
): DataView<ArrayBuffer> {
  const bytes = new Uint8Array(OPERATION_SIZE);
  const view = new DataView(bytes.buffer);
  const size = ADDRESS_SIZE[family];
  const first = side === 'client' ? 0 : 2;
  for (const at of [0, 1]) {
    const address = AT.addresses + (first + at) * size;
    bytes.set(wide(record.slice(address, address + size)), 16 * at);
    const port = AT.ports + 2 * (first + at);
    bytes.set(record.slice(port, port + 2), 32 + 2 * at);
  }
  bytes.set(record.slice(AT.protocol, AT.protocol + 1), 36);
  view.setBigUint64(40, SECRET, true);
  view.setUint32(48, now, true);
  view.setUint32(52, UDP_NEW, true);
  bytes.set(record, RECORD_AT);
  return view;
}
