// SPDX-License-Identifier: Apache-2.0
// Whether this kernel does what direct return needs: headers around a packet and off it again, by bpf/probe/direct.bpf.c on frames that
// nobody else sees. The verifier takes the programs wherever it takes the others; what their calls do shows when they are made.
import { reasonOf } from '../../../../errors.ts';
import type { Logger } from '../../../../log.ts';
import type { Family } from '../../../../model/types.ts';
import type { BpfProgram } from '../../../../sys/native.ts';
import { withObject } from '../../kernel/probe/objects.ts';

interface Tunnel {
  readonly name: string;
  readonly outer: Family;
  readonly inner: Family;
  /** Of all headers. */
  readonly size: number;
}

/** As bpf/packet/geneve/wire.h and bpf/packet/ipip/wire.h have them. */
const GENEVE: readonly Tunnel[] = [
  { name: 'IPv4 in Geneve between nodes of IPv4', outer: 'IPv4', inner: 'IPv4', size: 48 },
  { name: 'IPv6 in Geneve between nodes of IPv4', outer: 'IPv4', inner: 'IPv6', size: 60 },
  { name: 'IPv4 in Geneve between nodes of IPv6', outer: 'IPv6', inner: 'IPv4', size: 68 },
  { name: 'IPv6 in Geneve between nodes of IPv6', outer: 'IPv6', inner: 'IPv6', size: 80 },
];
const IPIP: readonly Tunnel[] = [
  { name: 'IPv4 in IPIP', outer: 'IPv4', inner: 'IPv4', size: 20 },
  { name: 'IPv6 in IPIP', outer: 'IPv6', inner: 'IPv6', size: 40 },
];

/** BPF_F_ADJ_ROOM_ENCAP_L4_UDP */
const BEFORE_UDP = 1 << 4;
const ETHERTYPE = { IPv4: [0x08, 0x00], IPv6: [0x86, 0xdd] } as const;
const VERSION = { IPv4: 4, IPv6: 6 } as const;
/** TC_ACT_OK, TC_ACT_REDIRECT */
const [TAKEN_OFF, SENT] = [0, 7];
const FILLER = 0x5a;
const PACKET_BYTES = 100;
/** Of struct __sk_buff, in words: where those begin that are the program's own, and more than any kernel has. */
const [CB, CONTEXT_WORDS] = [12, 64];

/** The kernel has made something else of a frame. Whatever else ends a trial tells nothing about direct return. */
class NoDirectReturn extends Error {}

type Runs = Pick<BpfProgram, 'testRun'>;

/** Throws an Error that says what does not work. */
export const tryDirectReturn = (): Promise<void> =>
  withObject({ name: 'direct.bpf.o', programs: ['probe_wrap', 'probe_unwrap'] }, ({ program }) =>
    tryFrames({ wrap: program('probe_wrap'), unwrap: program('probe_unwrap') }),
  );

/** Throws NoDirectReturn. */
export function tryFrames({ wrap, unwrap }: Readonly<Record<'wrap' | 'unwrap', Runs>>): void {
  for (const tunnel of GENEVE) {
    putAround(wrap, tunnel, BEFORE_UDP);
    takeOff(unwrap, tunnel);
  }
  for (const tunnel of IPIP) putAround(wrap, tunnel, 0);
}

/** Why not; undefined: it can, or that could not be told. */
export async function reasonForNoDirectReturn(
  log: Pick<Logger, 'warn'>,
  attempt: () => Promise<void> = tryDirectReturn,
): Promise<string | undefined> {
  try {
    await attempt();
    return undefined;
  } catch (error) {
    const isLacking = error instanceof NoDirectReturn;
    const reason = reasonOf(error);
    log.warn({ reason }, isLacking ? 'there is no direct return on this node' : UNTOLD);
    return isLacking ? reason : undefined;
  }
}

const UNTOLD = 'direct return could not be tried: requests are sent and taken as if it worked';

function putAround(program: Runs, tunnel: Tunnel, flags: number): void {
  const { name, outer, inner, size } = tunnel;
  const words = [VERSION[outer], size, flags];
  const { retval, dataOut } = run(program, frameOf(inner), words);
  check(`${name} cannot be sent`, { retval, wanted: SENT });
  if (!isSame(dataOut, wrapped(tunnel))) {
    throw new NoDirectReturn(`${name} cannot be sent: the headers are not around the packet`);
  }
}

function takeOff(program: Runs, tunnel: Tunnel): void {
  const { name, outer, inner, size } = tunnel;
  const words = [VERSION[outer], VERSION[inner], size];
  const { retval, dataOut } = run(program, wrapped(tunnel), words);
  check(`${name} cannot be received`, { retval, wanted: TAKEN_OFF });
  if (!isSame(dataOut, frameOf(inner))) {
    throw new NoDirectReturn(`${name} cannot be received: what is left is not the packet`);
  }
}

function run(program: Runs, dataIn: Uint8Array, words: readonly number[]) {
  const context = new Uint32Array(CONTEXT_WORDS);
  context.set(words, CB);
  return program.testRun({ dataIn, contextIn: new Uint8Array(context.buffer) });
}

/** As enum step in bpf/probe/direct.bpf.c. */
const STEPS: Readonly<Record<number, string>> = {
  1: 'bpf_skb_adjust_room() makes no room for headers',
  2: 'bpf_skb_store_bytes() writes no headers',
  3: 'bpf_fib_lookup() looks up no route',
  4: 'bpf_skb_adjust_room() and bpf_skb_change_proto() take no headers off',
};

function check(what: string, { retval, wanted }: Readonly<Record<'retval' | 'wanted', number>>) {
  if (retval === wanted) return;
  const step = STEPS[retval >>> 16];
  const why = step === undefined ? `the program returns ${retval}` : step;
  throw new NoDirectReturn(
    `${what}: ${why}${step === undefined ? '' : ` (error ${retval & 0xffff})`}`,
  );
}

/** An Ethernet frame with a packet that is the family's by its version alone. */
const frameOf = (family: Family): Uint8Array => framed(family, packetOf(family));

function packetOf(family: Family): Uint8Array {
  const packet = Uint8Array.from({ length: PACKET_BYTES }, (_, at) => at);
  packet[0] = family === 'IPv4' ? 0x45 : 0x60;
  return packet;
}

const wrapped = ({ outer, inner, size }: Tunnel): Uint8Array =>
  framed(outer, Uint8Array.of(...new Uint8Array(size).fill(FILLER), ...packetOf(inner)));

const STATIONS = Uint8Array.from({ length: 12 }, (_, at) => at * 2);

const framed = (family: Family, packet: Uint8Array): Uint8Array =>
  Uint8Array.of(...STATIONS, ...ETHERTYPE[family], ...packet);

const isSame = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0;
