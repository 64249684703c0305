// SPDX-License-Identifier: Apache-2.0
// Random and broken packets through the program at XDP and both hooks of tc, beside a second copy of the programs that has tc alone: what
// leaves is the same. FAIRLEAD_FUZZ=1000000 for a long run, FAIRLEAD_SEED for other packets, or for those of a failure.
import { afterAll, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { ANY_NUMBER_MS, SEED } from '../../../../support/random.ts';
import { Mutator } from '../support/mutate.ts';
import { PacketDrive } from '../support/packet-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';
import { enterUplinks, UPLINK } from '../support/uplinks.ts';
import { XDP, XdpDrive } from '../support/xdp-drive.ts';

const PACKETS = Number(process.env['FAIRLEAD_FUZZ'] ?? 20_000);
const DROPPED = 2;
const SENT_BACK = 7;

enterUplinks('one way');
const [withXdp, alone] = [new PacketDrive(), new PacketDrive()];
const xdp = new XdpDrive(withXdp.object);
xdp.putDevices();
afterAll(() => {
  xdp.close();
  for (const drive of [withXdp, alone]) drive.close();
});

/** Each frontend has one backend, so that both copies choose the same. */
for (const drive of [withXdp, alone]) {
  for (const family of FAMILIES) {
    for (const protocol of ['TCP', 'UDP', 'SCTP'] as const) {
      publish(drive, family, { protocol, rule: { masquerade: protocol !== 'UDP' } });
      drive.putFrontend({ address: PLACES[family].vip, port: 81, protocol });
    }
    drive.putSettings({ answersPerSecond: 1_000_000_000 });
  }
}
xdp.putDevices();
/** A VLAN that XDP may not serve, because its device has no address: its tags are taken off, and put back. */
xdp.putLinks({ from: { ifindex: UPLINK.ifindex, tag: 0x8100_0005 }, to: { ifindex: 99, tag: 0 } });

/** Between a client and the Service, or its backend and the client or the node. */
function flowLine(mutator: Mutator): string {
  const { client, vip, node, pod } = names(mutator.one(...FAMILIES));
  const port = 40_000 + mutator.below(64);
  const flags = mutator.one(
    'SYN',
    'SYN',
    'ACK',
    'ACK',
    'ACK PSH',
    'SYN ACK',
    'SYN ACK',
    'FIN ACK',
    'RST',
  );
  const number = 1000 * mutator.below(4);
  const tag = mutator.chance(0.1) ? ' vlan=5' : '';
  const word = mutator.chance(0.7)
    ? `tcp ${flags} seq=${number} ack=${number} payload=${mutator.below(90)}${tag}`
    : `udp payload=${mutator.below(90)}${tag}`;
  if (mutator.chance(0.5)) return `${client(port)} > ${vip()} ${word}`;
  return `${pod(5)} > ${mutator.chance(0.7) ? node(port) : client(port)} ${word}`;
}

type Outcome = {
  readonly what: 'dropped' | 'sent back' | 'left' | 'sent';
  readonly frame?: Uint8Array;
};

/** Both hooks of tc. */
function byTc(drive: PacketDrive, frame: Uint8Array): Outcome {
  const inside = drive.run('fl_ingress', frame);
  if (inside.action === DROPPED) return { what: 'dropped' };
  if (inside.action === SENT_BACK) return { what: 'sent back', frame: inside.frame };
  const out = drive.run('fl_egress', inside.frame);
  if (out.action === DROPPED) return { what: 'dropped' };
  return { what: 'left', frame: out.frame };
}

function byBoth(frame: Uint8Array): Outcome {
  const { action, frame: out } = xdp.run(frame);
  if (action === XDP.drop) return { what: 'dropped' };
  if (action === XDP.redirect) return { what: 'sent', frame: out };
  if (action !== XDP.pass) throw new Error(`action ${action}`);
  if (Buffer.compare(frame, out) !== 0) throw new Error('changed, and left');
  return byTc(withXdp, frame);
}

/** As the stack would have left it: one hop farther, with other addresses of stations. */
function asSent(frame: Uint8Array): Uint8Array {
  const bytes = frame.slice();
  bytes.fill(0, 0, 12);
  const view = new DataView(bytes.buffer);
  if (bytes[12] === 0x86) {
    bytes[21] = (bytes[21] ?? 0) - 1;
    return bytes;
  }
  bytes[22] = (bytes[22] ?? 0) - 1;
  // Its checksum (RFC 1624), of which 0 and 0xffff are the same.
  let sum = (~view.getUint16(24) & 0xffff) + 0xfeff;
  sum = (sum & 0xffff) + (sum >>> 16);
  view.setUint16(24, ~sum & 0xffff);
  return bytes;
}
const ipChecksumIsSame = (a: Uint8Array, b: Uint8Array): boolean => {
  const [one, other] = [a.slice(), b.slice()];
  for (const bytes of [one, other]) {
    const view = new DataView(bytes.buffer);
    if (bytes[12] === 0x08 && view.getUint16(24) === 0xffff) view.setUint16(24, 0);
  }
  return Buffer.compare(one, other) === 0;
};

const shown = (frame: Uint8Array | undefined): string => {
  try {
    return frame === undefined ? '' : describeFrame(frame);
  } catch {
    return '!unreadable';
  }
};

test(`${PACKETS} packets leave as they do without XDP (seed ${SEED})`, {
  timeout: ANY_NUMBER_MS,
}, () => {
  const mutator = new Mutator(SEED);
  const counts = { dropped: 0, 'sent back': 0, left: 0, sent: 0 };
  const isAlike = (is: Outcome, was: Outcome): boolean => {
    if (is.what === 'sent') {
      if (was.what !== 'left' || was.frame === undefined || is.frame === undefined) return false;
      return ipChecksumIsSame(asSent(was.frame), Uint8Array.from(is.frame).fill(0, 0, 12));
    }
    if (is.what !== was.what) return false;
    return is.what !== 'left' || Buffer.compare(is.frame ?? frame0, was.frame ?? frame0) === 0;
  };
  const frame0 = new Uint8Array();
  for (let n = 0; n < PACKETS; n += 1) {
    const plain = mutator.frame(mutator.chance(0.6) ? flowLine(mutator) : mutator.line());
    const frame = mutator.chance(0.8) ? plain : mutator.broken(plain);
    const was = byTc(alone, frame);
    const is = byBoth(frame);
    counts[is.what] += 1;
    if (!isAlike(is, was)) {
      const lines = [
        `${shown(frame)}`,
        `tc: ${was.what} ${shown(was.frame)}`,
        `XDP: ${is.what} ${shown(is.frame)}`,
      ];
      throw new Error(`packet ${n}:\n${lines.join('\n')}\n${Buffer.from(frame).toString('hex')}`);
    }
    if (
      is.frame !== undefined &&
      !shown(frame).includes('!') &&
      shown(is.frame).split(' | ')[0]?.includes('!')
    )
      throw new Error(`checksum: ${shown(frame)} -> ${shown(is.frame)}`);
  }
  process.stdout.write(
    `of ${PACKETS} packets: ${JSON.stringify(counts)}, ${JSON.stringify(withXdp.reasons(true))}\n`,
  );
  expect(counts.sent).toBeGreaterThan(PACKETS / 10);
  for (const family of FAMILIES) {
    for (const { backend, client } of withXdp.conns(family)) {
      expect(backend.address, JSON.stringify(client)).toBe(PLACES[family].pod(5));
    }
    // Here the two hooks have devices of their own: answers to what came by XDP go back to that.
    const { ANSWER_SENT_BACK: _, ...reasons } = withXdp.reasons();
    expect(reasons).toEqual(alone.reasons());
  }
});
