// SPDX-License-Identifier: Apache-2.0
// 10,000 live flows under a flood of half-open ones, SYN and one-way UDP from random sources: each live flow keeps its
// backend, its SNAT port and its replies. FAIRLEAD_FLOOD=10000000 for ten million (about five minutes for each family).
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { portsBeside } from '../../../../../src/engines/bpf/snat/ports.ts';
import type { Family } from '../../../../../src/model/types.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { ANY_NUMBER_MS, randomOf, SEED } from '../../../../support/random.ts';
import { PacketDrive } from '../support/packet-drive.ts';
import { names, publish } from '../support/stage.ts';

const HALF_OPEN = Number(process.env['FAIRLEAD_FLOOD'] ?? 200_000);
const LIVE = 10_000;
/** Room for three times as many: the flood takes the rest. */
const BUCKETS = 8_192;
const [SYN, ACK] = [2, 16];
/** TC_ACT_UNSPEC. */
const LEFT = 0xffffffff;

/** Offsets in a frame. */
const LAYOUT = {
  IPv4: { source: 26, destination: 30, ports: 34, flags: 47, width: 4 },
  IPv6: { source: 22, destination: 38, ports: 54, flags: 67, width: 16 },
} as const;

let drive: PacketDrive;
beforeEach(() => {
  const ports = portsBeside({ first: 32_768, last: 60_999 });
  drive = new PacketDrive(ports, {}, { buckets: BUCKETS });
});
afterEach(() => drive.close());

/** Both hooks; undefined: dropped, or sent back. */
function through(frame: Uint8Array): Uint8Array | undefined {
  const inside = drive.run('fl_ingress', frame);
  if (inside.action !== LEFT) return undefined;
  const outside = drive.run('fl_egress', inside.frame);
  return outside.action === LEFT ? outside.frame : undefined;
}

class Ends {
  readonly #at: (typeof LAYOUT)[Family];

  constructor(family: Family) {
    this.#at = LAYOUT[family];
  }

  /** Addresses and ports. */
  of(frame: Uint8Array): string {
    const { source, ports } = this.#at;
    return Buffer.from(frame.subarray(source, ports + 4)).toString('hex');
  }

  /** The answer to a packet, with these flags of TCP. */
  answer(frame: Uint8Array, flags: number): Uint8Array {
    const { source, destination, ports, width } = this.#at;
    const bytes = frame.slice();
    bytes.copyWithin(source, destination, destination + width);
    bytes.set(frame.subarray(source, source + width), destination);
    bytes.set(frame.subarray(ports + 2, ports + 4), ports);
    bytes.set(frame.subarray(ports, ports + 2), ports + 2);
    bytes[this.#at.flags] = flags;
    return bytes;
  }

  /** The same packet of another client: the last bytes of its address, and its port. */
  from(frame: Uint8Array, host: number, port: number): Uint8Array {
    const { source, ports, width } = this.#at;
    const view = new DataView(frame.buffer, frame.byteOffset);
    view.setUint16(source + width - 2, host);
    view.setUint16(ports, port);
    return frame;
  }
}

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const ends = new Ends(family);
  const { client, vip } = names(family);
  const frameOf = (word: string): Uint8Array => buildFrame(`${client()} > ${vip()} ${word}`);

  interface Live {
    readonly request: Uint8Array;
    /** As it left the node. */
    readonly sent: string;
    readonly reply: Uint8Array;
    /** As it left the node: from the frontend to the client. */
    readonly received: string;
  }

  /** An established flow of this client. */
  function establish(host: number, port: number): Live {
    const sent = through(ends.from(frameOf('tcp SYN'), host, port));
    if (sent === undefined) throw new Error('the SYN of a live flow was not translated');
    const request = ends.from(frameOf('tcp ACK payload=10'), host, port);
    const received = ends.of(ends.answer(request, ACK));
    expect(ends.of(through(ends.answer(sent, SYN | ACK))!)).toBe(received);
    through(request);
    return { request, sent: ends.of(sent), reply: ends.answer(sent, ACK), received };
  }

  const isKept = ({ request, sent, reply, received }: Live): boolean => {
    const [out, back] = [through(request), through(reply)];
    return (
      out !== undefined && ends.of(out) === sent && back !== undefined && ends.of(back) === received
    );
  };

  test(`${LIVE} live flows, ${HALF_OPEN} half-open ones`, { timeout: ANY_NUMBER_MS }, () => {
    for (const protocol of ['TCP', 'UDP'] as const) {
      publish(drive, family, { protocol, backends: [{}, {}], rule: { masquerade: true } });
    }
    const live = Array.from({ length: LIVE }, (_, n) => establish(n >> 3, 40_000 + n));
    expect(drive.confirmed(family)).toHaveLength(LIVE);
    const random = randomOf(SEED);
    const templates = [frameOf('tcp SYN'), frameOf('udp payload=20')] as const;
    const startedAt = performance.now();
    const translated = [0, 0];
    for (let n = 0; n < HALF_OPEN; n += 1) {
      const frame = templates[n & 1] ?? templates[0];
      // Another half of the address, too: not only of the live clients' network.
      frame[LAYOUT[family].source + LAYOUT[family].width - 3] = 256 * random();
      const flooded = through(ends.from(frame, 65_536 * random(), 65_536 * random()));
      translated[n & 1]! += Number(flooded !== undefined);
      const sample = live[n % LIVE];
      if (n % 50 === 0 && sample !== undefined && !isKept(sample)) throw new Error(`lost at ${n}`);
    }
    const seconds = (performance.now() - startedAt) / 1000;
    const kept = live.filter(isKept).length;
    const halfOpen = drive.halfOpen(family).length;
    process.stdout.write(
      `flood of ${family}: ${HALF_OPEN} half-open flows in ${seconds.toFixed(1)} s, translated: ${translated.join(' of TCP, ')} of UDP; ` +
        `${kept} of ${LIVE} live flows kept; ${halfOpen} half-open ones in the table; ${JSON.stringify(drive.reasons())}\n`,
    );
    expect(kept).toBe(LIVE);
    expect(drive.confirmed(family)).toHaveLength(LIVE);
    // Three of seven slots of each bucket.
    expect(halfOpen).toBeLessThanOrEqual(3 * BUCKETS);
    // TCP takes ports of itself alone, so that new flows still find one. UDP takes none that may still be answered.
    const reasons = drive.reasons();
    expect(translated).toEqual([HALF_OPEN / 2, HALF_OPEN / 2 - (reasons['DROPPED_NO_PORT'] ?? 0)]);
    // Where the buckets of replies are full, another port has others.
    expect(['HALF_OPEN_EVICTED', 'DROPPED_NO_PORT', 'CLIENT_PORT_CHANGED']).toEqual(
      expect.arrayContaining(Object.keys(reasons)),
    );
  });
});
