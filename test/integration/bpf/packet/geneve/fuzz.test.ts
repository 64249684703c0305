// SPDX-License-Identifier: Apache-2.0
// Direct return between the programs of two nodes: what one sends, the other takes, and nothing that is broken on the way
// does harm.
import { beforeEach, describe, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { wrap } from '../../../../support/packets/geneve.ts';
import { Mutator } from '../support/mutate.ts';
import {
  NODES,
  putBackendNode,
  putLocalBackend,
  putPeer,
  takeGeneve,
  withRoutes,
} from '../support/nodes.ts';
import { SETTINGS } from '../support/packet-drive.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';

const SENT = 7;
const DROPPED = 2;
const LEFT = 0xffff_ffff;

const sender = sharedDrive();
/** The other node, which is known to the first one by its own address. */
const settings = {
  ...SETTINGS,
  nodeAddress: { IPv4: NODES.IPv4.peer, IPv6: NODES.IPv6.peer },
};
const receiver = sharedDrive(settings);
withRoutes(sender);

const rule = { masquerade: true, returnsDirectly: true };

beforeEach(() => {
  for (const family of FAMILIES) {
    const { own, peer } = NODES[family];
    for (const protocol of ['TCP', 'UDP'] as const) {
      publish(sender, family, { protocol, rule });
      publish(receiver, family, { protocol, rule, backends: [{ isLocal: true }] });
    }
    putPeer(sender, peer);
    putPeer(receiver, own);
    putLocalBackend(receiver, { id: 1, address: PLACES[family].pod(5), port: 8080 });
  }
  takeGeneve(receiver);
});

/** The device that it leaves by writes an Ethernet header of its own. */
function onWire(frame: Uint8Array): Uint8Array {
  const bytes = frame.slice();
  bytes.set((bytes[14] ?? 0) >> 4 === 6 ? [0x86, 0xdd] : [0x08, 0x00], 12);
  return bytes;
}

describe.each(FAMILIES.flatMap((family) => FAMILIES.map((outer) => [family, outer] as const)))(
  '%s between nodes of %s',
  (family, outer) => {
    const { client, vip, pod } = names(family);

    test.each(['tcp SYN seq=9', 'tcp ACK payload=500', 'udp payload=77', 'udp payload=5 nosum'])(
      'what one sends, the other delivers: %s',
      (words) => {
        putBackendNode(sender, 1, NODES[outer].peer);
        if (!words.includes('SYN'))
          sender.run('fl_ingress', buildFrame(`${client()} > ${vip()} tcp SYN`));
        const { action, frame } = sender.run(
          'fl_ingress',
          buildFrame(`${client()} > ${vip()} ${words}`),
        );
        expect(action).toBe(SENT);
        const delivered = receiver.run('fl_ingress', onWire(frame));
        expect(delivered.action).toBe(LEFT);
        expect(describeFrame(delivered.frame)).toBe(`${client()} > ${pod(5)} ${words} ttl=63`);
        const [protocol = ''] = words.split(' ');
        const answer = `${pod(5)} > ${client()} ${protocol} ${protocol === 'tcp' ? 'SYN ACK' : 'payload=2'}`;
        const back = receiver.run('fl_egress', buildFrame(answer));
        expect(describeFrame(back.frame)).toBe(answer.replace(pod(5), vip()));
      },
    );
  },
);

const seed = Number(process.env['FAIRLEAD_SEED'] ?? Date.now() % 1_000_000);
const packets = Number(process.env['FAIRLEAD_FUZZ'] ?? 8000);

test(`what is broken is dropped or left, and what is delivered is whole (seed ${seed}, ${packets})`, () => {
  const mutator = new Mutator(seed);
  const counts = { left: 0, delivered: 0, dropped: 0 };
  for (let n = 0; n < packets; n++) {
    const family = mutator.one(...FAMILIES);
    const outer = mutator.one(...FAMILIES);
    const backend = { address: PLACES[family].pod(5), port: 8080 };
    const { client, vip } = names(family);
    const request = `${client(40_000 + mutator.below(4))} > ${vip()}`;
    const line = mutator.chance(0.5)
      ? mutator.line(family)
      : `${request} ${mutator.one('tcp SYN', 'tcp ACK payload=9', 'udp payload=3')}`;
    const whole = mutator.frame(line);
    const inner = mutator.chance(0.3) ? mutator.broken(whole) : whole;
    const { own: from, peer: to } = NODES[outer];
    const cookie = mutator.chance(0.5)
      ? Uint8Array.from({ length: 8 }, () => mutator.below(256))
      : undefined;
    let frame: Uint8Array = wrap({ from, to, backend, inner, cookie });
    if (mutator.chance(0.5)) frame = mutator.broken(frame);
    const { action, frame: out } = receiver.run('fl_ingress', frame);
    // A refusal of what was broken so that it is for this node itself may be sent back.
    expect([LEFT, DROPPED, SENT], `packet ${n} of seed ${seed}`).toContain(action);
    if (action === DROPPED) counts.dropped++;
    else if (Buffer.compare(out, frame) === 0) counts.left++;
    else {
      counts.delivered++;
      const text = describeFrame(out);
      if (action === LEFT && !text.includes('frag='))
        expect(out.length, text).toBeLessThan(frame.length);
    }
  }
  process.stdout.write(`geneve fuzz ${JSON.stringify({ seed, ...counts })}\n`);
  expect(Math.min(...Object.values(counts))).toBeGreaterThan(packets / 100);
});
