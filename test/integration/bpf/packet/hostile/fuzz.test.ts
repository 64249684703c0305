// SPDX-License-Identifier: Apache-2.0
// Random and broken packets through both hooks. FAIRLEAD_FUZZ=1000000 for a long run, FAIRLEAD_SEED for other
// packets, or for those of a failure.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { ANY_NUMBER_MS, SEED } from '../../../../support/random.ts';
import { Mutator } from '../support/mutate.ts';
import { PacketDrive } from '../support/packet-drive.ts';
import { PLACES, publish } from '../support/stage.ts';

const PACKETS = Number(process.env['FAIRLEAD_FUZZ'] ?? 20_000);
const ACTION = { left: 0xffffffff, dropped: 2, sentBack: 7 } as const;
/** Addresses, ports, checksums of both headers: all that a translation may change. */
const MOST_CHANGED = 2 + 32 + 4 + 2;

let drive: PacketDrive;
beforeAll(() => {
  drive = new PacketDrive({ answersPerSecond: 1_000_000_000 });
  for (const family of FAMILIES) {
    for (const protocol of ['TCP', 'UDP', 'SCTP'] as const) {
      const rule = { masquerade: protocol !== 'UDP' };
      publish(drive, family, { protocol, backends: [{}, {}], rule });
      drive.putFrontend({ address: PLACES[family].vip, port: 81, protocol });
    }
    drive.putBackend({ id: 3, address: PLACES[family].pod(7), port: 80 });
    const rules = { host: { masquerade: true, set: drive.putSet(3, [3]) } };
    drive.putFrontend({ address: PLACES[family].vip, port: 82, protocol: 'SCTP', rules });
    drive.putWildcard(PLACES[family].vip);
  }
});
afterAll(() => drive.close());

const shown = (frame: Uint8Array): string => {
  try {
    return describeFrame(frame);
  } catch {
    return '!unreadable';
  }
};
const isRight = (text: string): boolean => !text.includes('!');
const [DESTINATION, SOURCE] = [2, 0];
const endpoint = (text: string, word: number): string => text.split(' ')[word] ?? '';

/** What the destination of a packet may become at ingress: a backend, or a client of this test. */
const MEANT = new Set(
  FAMILIES.flatMap((family) => {
    const { pod, client, node, vip } = PLACES[family];
    return [pod(5), pod(6), pod(7), client, node, vip];
  }),
);
const addressOf = (end: string): string =>
  end.startsWith('[') ? end.slice(1, end.indexOf(']')) : end.replace(/^([\d.]+):\d+$/, '$1');

function checkPacket(
  program: 'fl_ingress' | 'fl_egress',
  frame: Uint8Array,
): Uint8Array | undefined {
  const { action, frame: out } = drive.run(program, frame);
  const before = shown(frame);
  const after = shown(out);
  const about = `${program}: ${before}\n -> ${action} ${after}\n${Buffer.from(frame).toString('hex')}`;
  if (!Object.values(ACTION).some((legal) => legal === action)) throw new Error(`action: ${about}`);
  if (action === ACTION.dropped) return undefined;
  const outer = after.split(' | ')[0] ?? '';
  if (action === ACTION.sentBack) {
    const isAnswer = endpoint(before, SOURCE).startsWith(
      addressOf(endpoint(after, DESTINATION)).slice(0, 4),
    );
    if (!isRight(outer)) throw new Error(`checksum of the answer: ${about}`);
    if (!isAnswer && !before.includes('[')) throw new Error(`receiver of the answer: ${about}`);
    return undefined;
  }
  if (isRight(before) && !isRight(after)) throw new Error(`checksum: ${about}`);
  if (out.length !== frame.length) throw new Error(`length: ${about}`);
  let changed = 0;
  for (let i = 0; i < out.length; i++) changed += Number(out[i] !== frame[i]);
  const most = before.includes('icmp') ? 2 * MOST_CHANGED : MOST_CHANGED;
  if (changed > most) throw new Error(`${changed} bytes: ${about}`);
  const end = program === 'fl_ingress' ? DESTINATION : SOURCE;
  const [was, is] = [endpoint(before, end), endpoint(after, end)];
  if (was !== is && !MEANT.has(addressOf(is))) throw new Error(`backend: ${about}`);
  return out;
}

/** Through both hooks again and again: nothing is left to translate after a few devices. */
function checkLoop(frame: Uint8Array): void {
  let at: Uint8Array = frame;
  for (let device = 0; device < 8; device++) {
    const inside = checkPacket('fl_ingress', at);
    const out = inside && checkPacket('fl_egress', inside);
    if (out === undefined || Buffer.compare(out, at) === 0) return;
    at = out;
  }
  throw new Error(`loops: ${shown(frame)}`);
}

test(`${PACKETS} packets: legal actions, right checksums, no wrong backend, no loop`, {
  timeout: ANY_NUMBER_MS,
}, () => {
  const mutator = new Mutator(SEED);
  for (let n = 0; n < PACKETS; n++) {
    const frame = mutator.frame(mutator.line());
    checkLoop(mutator.chance(0.5) ? frame : mutator.broken(frame));
    if (n % 1000 === 0)
      drive.putSettings({ secret: BigInt(n + 1), answersPerSecond: 1_000_000_000 });
  }
  process.stdout.write(`reasons of ${PACKETS} packets: ${JSON.stringify(drive.reasons())}\n`);
  for (const family of FAMILIES) {
    const { pod } = PLACES[family];
    for (const { backendId, backend, client } of drive.conns(family)) {
      // Without a backend it only says whose a port is.
      if (backendId === 0) continue;
      expect([pod(5), pod(6), pod(7)], JSON.stringify(client)).toContain(backend.address);
    }
  }
  expect(Object.keys(drive.reasons())).toEqual(
    expect.arrayContaining([
      'BAD_HEADER',
      'TRUNCATED_HEADER',
      'ICMP_TRANSLATED',
      'UNKNOWN_CONNECTION',
    ]),
  );
});
