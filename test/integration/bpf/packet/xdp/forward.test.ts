// SPDX-License-Identifier: Apache-2.0
// The program at XDP alone: what comes in, what is sent and by which device, and what is left as it came, and why.

import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { TICK_SHIFT } from '../../../../../src/engines/bpf/layout/conn-layout.ts';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { editConns } from '../../../../support/dataplane/conn-text.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish, type Service } from '../support/stage.ts';
import { enterUplinks, ip, NEIGHBOUR_MAC, ROUTER_MAC, SECOND, UPLINK } from '../support/uplinks.ts';
import { XDP, XdpDrive } from '../support/xdp-drive.ts';

const MASQUERADE = { rule: { masquerade: true } } as const;

enterUplinks('each');
const drive = sharedDrive();
const xdp = new XdpDrive(drive.object);
beforeEach(() => xdp.putDevices());
afterAll(() => xdp.close());

const mac = (bytes: Uint8Array): string =>
  Buffer.from(bytes)
    .toString('hex')
    .replace(/(..)(?=.)/g, '$1:');

/** `left`, `dropped`, or the packet that is sent, with the ends of its frame. */
function play(line: string, frame = buildFrame(line)): string {
  const { action, frame: out } = xdp.run(frame);
  if (action === XDP.drop) return 'dropped';
  if (action === XDP.pass)
    return Buffer.compare(out, frame) === 0 ? 'left' : `changed: ${describeFrame(out)}`;
  if (action !== XDP.redirect) return `action ${action}`;
  return `${describeFrame(out)} | ${mac(out.subarray(6, 12))} > ${mac(out.subarray(0, 6))}`;
}
const toRouter = `ttl=63 | ${UPLINK.mac} > ${ROUTER_MAC}`;
const toNeighbour = `ttl=63 | ${UPLINK.mac} > ${NEIGHBOUR_MAC}`;
const bySecond = `ttl=63 | ${SECOND.mac} > ${NEIGHBOUR_MAC}`;

describe.each(FAMILIES)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const at = PLACES[family];
  /** A Service whose only backend is this pod. */
  const serve = (n: number, service: Service = {}): void =>
    publish(drive, family, { backends: [{ address: at.pod(n) }], ...service });

  describe.each([
    ['TCP', 'tcp SYN', 'tcp ACK payload=9', 'tcp SYN ACK'],
    ['UDP', 'udp payload=5', 'udp payload=6', 'udp payload=7'],
  ] as const)('%s', (protocol, first, next, answer) => {
    test('masqueraded: there and back, first packets and those that follow', () => {
      serve(5, { protocol, ...MASQUERADE });
      expect(play(`${client()} > ${vip()} ${first}`)).toBe(
        `${node(40_000)} > ${pod(5)} ${first} ${toNeighbour}`,
      );
      expect(play(`${pod(5)} > ${node(40_000)} ${answer}`)).toBe(
        `${vip()} > ${client()} ${answer} ${toRouter}`,
      );
      expect(play(`${client()} > ${vip()} ${next}`)).toBe(
        `${node(40_000)} > ${pod(5)} ${next} ${toNeighbour}`,
      );
      expect(drive.reasons(true)).toEqual({ XDP_SENT: 3 });
    });

    test.each([0x01, 0xff])('whatever a packet before has left: bytes of %i', (byte) => {
      serve(5, { protocol, ...MASQUERADE });
      for (const line of [
        `${client()} > ${vip()} ${first}`,
        `${pod(5)} > ${node(40_000)} ${answer}`,
        `${client()} > ${vip()} ${next}`,
      ]) {
        xdp.scribble(byte);
        expect(play(line), line).toContain('ttl=63');
      }
      expect(drive.reasons(true)).toEqual({ XDP_SENT: 3 });
    });

    test('not masqueraded, by the other uplink', () => {
      serve(6, { protocol });
      expect(play(`${client()} > ${vip()} ${first}`)).toBe(
        `${client()} > ${pod(6)} ${first} ${bySecond}`,
      );
    });

    test('the address of the device that it leaves by is the SNAT address', () => {
      serve(6, { protocol, ...MASQUERADE });
      const own = family === 'IPv4' ? '172.20.0.1' : 'fd00:20::1';
      xdp.putDevices({ snat: { [family]: own } });
      expect(play(`${client()} > ${vip()} ${first}`)).toBe(
        `${at.port(own, 40_000)} > ${pod(6)} ${first} ${bySecond}`,
      );
    });

    test.each([
      [7, 'XDP_NO_TARGET', 'a pod of this node'],
      [8, 'XDP_NO_NEIGHBOUR', 'an unknown neighbour'],
      [10, 'XDP_NO_WAY', 'a forbidden route'],
      [11, 'XDP_NO_WAY', 'no route'],
      [12, 'XDP_NO_WAY', 'no route at all'],
    ])('to pod %i it is left: %s, %s', (n, reason) => {
      serve(n, { protocol, ...MASQUERADE });
      const line = `${client()} > ${vip()} ${first}`;
      expect(play(line)).toBe('left');
      expect(drive.reasons(true)).toEqual({ [reason]: 1 });
      expect(drive.halfOpen(family)).toEqual([]);
      // And so is one whose flow began at tc.
      drive.ingress(line);
      expect(play(line)).toBe('left');
      expect(drive.halfOpen(family)).toMatchObject([{ packets: 1 }]);
    });

    test('too big for the way on it is left, which tells the sender', () => {
      serve(9, { protocol });
      const size = family === 'IPv4' ? 600 : 1290;
      const short = (bytes: number): string =>
        `${client()} > ${vip()} ${first.replace(' payload=5', '')} payload=${bytes - (family === 'IPv4' ? 20 : 40) - (protocol === 'TCP' ? 20 : 8)}`;
      expect(play(short(size + 1))).toBe('left');
      expect(play(short(size))).toContain(toNeighbour);
      expect(drive.reasons(true)).toEqual({ XDP_TOO_BIG: 1, XDP_SENT: 1 });
    });

    test('a checksum that the sender left to the device is left', () => {
      serve(5, { protocol });
      const frame = buildFrame(`${client()} > ${vip()} ${first}`);
      const network = family === 'IPv4' ? 20 : 40;
      const length = frame.length - 14 - network;
      const addresses = frame.subarray(14 + (family === 'IPv4' ? 12 : 8), 14 + network);
      let sum = length + (protocol === 'TCP' ? 6 : 17);
      for (let i = 0; i < addresses.length; i += 2)
        sum += ((addresses[i] ?? 0) << 8) | (addresses[i + 1] ?? 0);
      while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
      new DataView(frame.buffer, frame.byteOffset).setUint16(
        14 + network + (protocol === 'TCP' ? 16 : 6),
        sum,
      );
      expect(play('', frame)).toBe('left');
      expect(drive.reasons(true)).toEqual({ XDP_UNFINISHED: 1 });
    });
  });

  test.each([
    ['fragments', 'tcp SYN payload=64 frag=0+ take=40'],
    ['later fragments', 'udp payload=64 frag=8 take=40'],
    ['SCTP', 'sctp payload=16'],
    ['the last hop', 'tcp SYN ttl=1'],
    ['options', family === 'IPv4' ? 'tcp SYN options' : 'tcp SYN ext=hop'],
    ['VLAN tags', 'tcp SYN vlan=5'],
    ['TCP of no flow', 'tcp ACK'],
    ['a header that is too short', 'tcp SYN doff=4'],
  ])('%s: left', (_, word) => {
    for (const protocol of ['TCP', 'UDP', 'SCTP'] as const) serve(5, { protocol });
    expect(play(`${client()} > ${vip()} ${word}`)).toBe('left');
    expect(drive.reasons(true)).toEqual({});
  });

  test('ICMP, and what is for no frontend: left', () => {
    serve(5);
    const echo = family === 'IPv4' ? 'icmp 8/0 payload=8' : 'icmp6 128/0 payload=8';
    for (const line of [
      `${at.client} > ${at.vip} ${echo}`,
      `${client()} > ${vip(81)} tcp SYN`,
      `${client()} > ${pod(5)} tcp SYN`,
      `${pod(5)} > ${client()} tcp SYN ACK`,
    ]) {
      expect(play(line), line).toBe('left');
    }
    expect(drive.reasons(true)).toEqual({});
  });

  test('what is refused or dropped: left, and not counted', () => {
    publish(drive, family, { backends: [], rule: { whenEmpty: 'drop' } });
    publish(drive, family, { backends: [], protocol: 'UDP' });
    expect(play(`${client()} > ${vip()} tcp SYN`)).toBe('left');
    expect(play(`${client()} > ${vip()} udp payload=1`)).toBe('left');
    expect(drive.reasons(true)).toEqual({});
  });

  test('frames for other stations, and by devices whose address is not known: left', () => {
    serve(5);
    const frame = buildFrame(`${client()} > ${vip()} tcp SYN`);
    for (let i = 0; i < 6; i += 1) {
      const other = frame.slice();
      other[i] = (other[i] ?? 0) ^ 1;
      expect(play('', other)).toBe('left');
    }
    drive.object.map('fl_device').delete(Uint8Array.of(UPLINK.ifindex, 0, 0, 0));
    expect(play('', frame)).toBe('left');
    xdp.putDevices();
    expect(play('', frame)).toContain(toNeighbour);
  });

  test('a sender that is reached by another device, or has an address of this node: left', () => {
    serve(5);
    const stranger = at.port(family === 'IPv4' ? '172.20.0.2' : 'fd00:20::2', 40_000);
    expect(play(`${stranger} > ${vip()} tcp SYN`)).toBe('left');
    expect(play(`${node(40_000)} > ${vip()} tcp SYN`)).toBe('left');
    expect(drive.reasons(true)).toEqual({ XDP_OTHER_WAY: 2 });
    const odd = at.port(family === 'IPv4' ? '127.0.0.1' : 'fe80::1', 40_000);
    expect(play(`${odd} > ${vip()} tcp SYN`)).toBe('left');
    expect(drive.reasons(true), 'nothing was asked').toEqual({ XDP_OTHER_WAY: 2 });
  });

  test('an answer whose client is reached by another device than it came by: left to tc', () => {
    serve(5, MASQUERADE);
    const [far, router, other] =
      family === 'IPv4'
        ? ['198.51.100.0/24', '192.0.2.1', '172.20.0.2']
        : ['2001:db8:9::/64', '2001:db8::1', 'fd00:20::2'];
    expect(play(`${client()} > ${vip()} tcp SYN`)).toContain(toNeighbour);
    ip(`route replace ${far} via ${other}`);
    expect(play(`${pod(5)} > ${node(40_000)} tcp SYN ACK`)).toBe('left');
    expect(drive.reasons(true)).toEqual({ XDP_SENT: 1 });
    expect(drive.conns(family)).toMatchObject([{ state: 'new', replyPackets: 0 }]);
    ip(`route replace ${far} via ${router}`);
    xdp.nextSecond();
    expect(play(`${pod(5)} > ${node(40_000)} tcp SYN ACK`)).toContain(toRouter);
  });

  test('what comes by the device of a pod has the rule of pods', () => {
    drive.putBackend({ id: 1, address: at.pod(5), port: 8080 });
    const set = drive.putSet(0, [1]);
    const rules = { host: { set }, pod: { set, masquerade: true } };
    drive.putFrontend({ address: at.vip, port: 80, rules });
    xdp.putDevices({ isPod: true });
    expect(play(`${client()} > ${vip()} tcp SYN`)).toBe(
      `${node(40_000)} > ${pod(5)} tcp SYN ${toNeighbour}`,
    );
  });

  test('what direct return serves: left', () => {
    serve(5, { rule: { masquerade: true, returnsDirectly: true } });
    expect(play(`${client()} > ${vip()} tcp SYN`)).toBe('left');
    serve(5);
    expect(play(`${client()} > ${vip()} tcp SYN`)).toContain(toNeighbour);
    // direct_return of struct conn_flags.
    editConns(drive.object, family, (words) => {
      words[0] = (words[0] ?? 0) | (2 << 8);
    });
    expect(play(`${client()} > ${vip()} tcp ACK`)).toBe('left');
  });

  test('session affinity is written and renewed by what is sent, not by what is left', () => {
    const seen = (): readonly bigint[] => {
      const { values, count } = drive.object.map('fl_affinity').readAll();
      const { valueSize } = drive.object.map('fl_affinity').info;
      const view = new DataView(values.buffer, values.byteOffset);
      // Behind the id and the generation.
      return Array.from({ length: count }, (_, i) => view.getBigUint64(i * valueSize + 8, true));
    };
    serve(8, { affinitySeconds: 600 });
    expect(play(`${client()} > ${vip()} tcp SYN`)).toBe('left');
    expect(seen()).toEqual([]);
    serve(5, { affinitySeconds: 600 });
    xdp.nextSecond();
    expect(play(`${client()} > ${vip()} tcp SYN`)).toContain(toNeighbour);
    const [first = 0n, ...others] = seen();
    expect([first > 0n, others]).toEqual([true, []]);
    serve(8, { affinitySeconds: 600 });
    expect(play(`${client(40_001)} > ${vip()} tcp SYN`)).toBe('left');
    expect(seen()).toEqual([first]);
    expect(drive.ingress(`${client(40_001)} > ${vip()} tcp SYN`)).toContain(pod(8));
    expect(seen()[0]).toBeGreaterThan(first);
  });

  test('a flow that ends begins again here', () => {
    serve(5, MASQUERADE);
    for (const line of [
      `${client()} > ${vip()} tcp SYN`,
      `${pod(5)} > ${node(40_000)} tcp SYN ACK`,
      `${client()} > ${vip()} tcp ACK`,
      `${pod(5)} > ${node(40_000)} tcp RST`,
    ]) {
      expect(play(line), line).toContain('ttl=63');
    }
    expect(drive.confirmed(family)).toHaveLength(1);
    expect(play(`${client()} > ${vip()} tcp SYN seq=9`)).toContain(toNeighbour);
    expect([drive.confirmed(family), drive.halfOpen(family)]).toMatchObject([[], [{ packets: 1 }]]);
  });

  test('a flow to an address that replies come to, too, begins again here', () => {
    serve(5, MASQUERADE);
    const set = drive.putSet(0, [1]);
    drive.putFrontend({ address: at.node, port: 80, rules: { host: { set, masquerade: true } } });
    for (const line of [
      `${client()} > ${node(80)} tcp SYN`,
      `${pod(5)} > ${node(40_000)} tcp SYN ACK`,
      `${client()} > ${node(80)} tcp ACK`,
      `${pod(5)} > ${node(40_000)} tcp RST`,
    ]) {
      expect(play(line), line).toContain('ttl=63');
    }
    expect(play(`${client()} > ${node(80)} tcp SYN seq=9`)).toContain(toNeighbour);
    expect([drive.confirmed(family), drive.halfOpen(family)]).toMatchObject([[], [{ packets: 1 }]]);
  });

  test('a flow that is over ends, and no other one that an answer of its tuple would be of', () => {
    serve(5, MASQUERADE);
    const set = drive.putSet(0, [1]);
    const other = drive.putSet(1, [2]);
    drive.putBackend({ id: 2, address: at.client, port: 40_000 });
    drive.putFrontend({ address: at.node, port: 80, rules: { host: { set, masquerade: true } } });
    drive.putFrontend({
      ...{ address: at.vip, port: 81 },
      rules: { host: { set: other, masquerade: true } },
    });
    // Of the node's address and port to the client's, as the network stack sees it.
    drive.ingress(`${node(80)} > ${at.port(at.vip, 81)} tcp SYN`);
    for (const line of [
      `${client()} > ${node(80)} tcp SYN`,
      `${pod(5)} > ${node(40_000)} tcp SYN ACK`,
      `${client()} > ${node(80)} tcp ACK`,
      `${pod(5)} > ${node(40_000)} tcp RST`,
    ]) {
      play(line);
    }
    expect(drive.conns(family).map(({ frontend }) => frontend.port)).toEqual(
      expect.arrayContaining([80, 81]),
    );
    expect(play(`${client()} > ${node(80)} tcp SYN seq=9`)).toContain(toNeighbour);
    expect(drive.halfOpen(family).map(({ frontend }) => frontend.port)).toEqual(
      expect.arrayContaining([80, 81]),
    );
  });

  test('of established flows that were not seen this second one of 16 is left, so that the kernel asks its neighbours', () => {
    serve(5);
    const flows = 64;
    const each = (play: (port: number) => void): void => {
      for (let port = 40_000; port < 40_000 + flows; port += 1) play(port);
    };
    each((port) => {
      drive.ingress(`${client(port)} > ${vip()} tcp SYN`);
      drive.egress(`${pod(5)} > ${client(port)} tcp SYN ACK`);
      drive.ingress(`${client(port)} > ${vip()} tcp ACK`);
    });
    expect(drive.confirmed(family)).toHaveLength(flows);
    let before: Readonly<Record<string, number>> = {};
    const inOneSecond = (): boolean => {
      before = drive.reasons(true);
      drive.age(5, family);
      const begun = kernelSeconds();
      each((port) => play(`${client(port)} > ${vip()} tcp ACK`));
      return kernelSeconds() === begun;
    };
    // Another second leaves other flows: a busy machine may need some more of them.
    expect(Array.from({ length: 20 }).some(inOneSecond)).toBe(true);
    const { XDP_RENEWS: left = 0, XDP_SENT: sent = 0, ...others } = drive.reasons(true);
    const { XDP_RENEWS: leftBefore = 0, XDP_SENT: sentBefore = 0 } = before;
    expect([left - leftBefore, sent - sentBefore, others]).toEqual([4, 60, {}]);
  });

  test('of a busy flow one packet is left in such a second, and each side has a second of its own', () => {
    serve(5, MASQUERADE);
    const seconds = 16;
    for (const line of ['SYN', 'ACK'])
      for (let port = 40_000; port < 40_000 + seconds; port += 1) {
        play(`${client(port)} > ${vip()} tcp ${line}`);
        if (line === 'SYN') play(`${pod(5)} > ${node(port)} tcp SYN ACK`);
      }
    expect(drive.confirmed(family)).toHaveLength(seconds);
    let left = {};
    const inOneSecond = (): boolean => {
      const begun = process.hrtime.bigint();
      const second = begun / 1_000_000_000n;
      // In the second before, and less than one ago.
      const seen = Number((second * 1_000_000_000n) >> TICK_SHIFT) - 1;
      editConns(drive.object, family, (words) => {
        words[4] = seen;
      });
      const before = drive.reasons(true);
      for (let round = 0; round < 3; round += 1) {
        for (let port = 40_000; port < 40_000 + seconds; port += 1) {
          play(`${client(port)} > ${vip()} tcp ACK`);
          play(`${pod(5)} > ${node(port)} tcp ACK`);
        }
      }
      const after = drive.reasons(true);
      left = Object.fromEntries(
        Object.entries(after).map(([name, count]) => [name, count - (before[name] ?? 0)]),
      );
      return BigInt(kernelSeconds()) === second && begun % 1_000_000_000n < 700_000_000n;
    };
    expect(Array.from({ length: 200 }).some(inOneSecond)).toBe(true);
    expect(left).toEqual({ XDP_RENEWS: 2, XDP_SENT: 6 * seconds - 2 });
  });
});

/** As bpf_ktime_get_ns, in seconds. */
const kernelSeconds = (): number => Number(process.hrtime.bigint() / 1_000_000_000n);

test('IPv4: UDP without a checksum keeps none', () => {
  const { client, vip, pod } = names('IPv4');
  publish(drive, 'IPv4', { protocol: 'UDP' });
  expect(play(`${client()} > ${vip()} udp payload=5 nosum`)).toBe(
    `${client()} > ${pod(5)} udp payload=5 nosum ${toNeighbour}`,
  );
});

test('IPv4: a header with a wrong checksum is left, which the stack drops', () => {
  const { client, vip } = names('IPv4');
  publish(drive, 'IPv4', {});
  const frame = buildFrame(`${client()} > ${vip()} tcp SYN`);
  // The identification, the checksum itself, the client's address.
  for (const at of [18, 24, 28]) {
    const damaged = frame.slice();
    damaged[at] = (damaged[at] ?? 0) ^ 0x04;
    expect(play('', damaged), `byte ${at}`).toBe('left');
  }
  expect(drive.reasons(true)).toEqual({});
  expect(play('', frame)).toContain(toNeighbour);
});

test('before the agent has written its settings everything is left', () => {
  const { client, vip } = names('IPv4');
  publish(drive, 'IPv4', {});
  drive.putSettings({ secret: 0n });
  expect(play(`${client()} > ${vip()} tcp SYN`)).toBe('left');
});
