// SPDX-License-Identifier: Apache-2.0
// Direct return at the node of the backend: what comes in Geneve becomes a flow as any, and answers leave from the Service.
import { beforeEach, describe, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { onesSum, pseudoHeader } from '../../../../support/packets/checksum.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { wrap } from '../../../../support/packets/geneve.ts';
import {
  NODES,
  putBackendNode,
  putLocalBackend,
  putPeer,
  takeGeneve,
  withRoutes,
} from '../support/nodes.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish, type Service } from '../support/stage.ts';

const drive = sharedDrive();
withRoutes(drive);
const LEFT = 0xffff_ffff;
const DROPPED = 2;
const UDP = 8;
const GENEVE_AT = { IPv4: 14 + 20 + 8, IPv6: 14 + 40 + 8 } as const;

describe.each(FAMILIES.flatMap((family) => FAMILIES.map((outer) => [family, outer] as const)))(
  '%s between nodes of %s',
  (family, outer) => {
    const { client, vip, pod } = names(family);
    const at = PLACES[family];
    const { own, peer, stranger } = NODES[outer];
    const request = `${client()} > ${vip()}`;
    const reply = `${pod(5)} > ${client()}`;
    const backend = { address: at.pod(5), port: 8080 };
    const endpoint = (address: string, port: number): string =>
      outer === 'IPv4' ? `${address}:${port}` : `[${address}]:${port}`;

    const direct = { masquerade: true, returnsDirectly: true };

    /** This node would choose another backend, on another node: what is named counts. */
    function serve(service: Service = {}): void {
      const backends = [{ isLocal: true }, {}];
      publish(drive, family, { rule: direct, backends, ...service });
      putPeer(drive, peer);
      putBackendNode(drive, 2, peer);
      putLocalBackend(drive, { id: 1, ...backend });
      takeGeneve(drive);
    }
    const frameOf = (inner: string | Uint8Array, named = backend) =>
      wrap({ from: peer, to: own, backend: named, inner });
    const receive = (frame: Uint8Array): string => {
      const { action, frame: out } = drive.run('fl_ingress', frame);
      if (action === DROPPED) return 'dropped';
      if (action !== LEFT) return `action ${action}`;
      return Buffer.compare(out, frame) === 0 ? 'left' : describeFrame(out);
    };

    beforeEach(() => serve());

    test('a connection: to the backend that is named, and back from the Service', () => {
      expect(receive(frameOf(`${request} tcp SYN ttl=63`))).toBe(
        `${client()} > ${pod(5)} tcp SYN ttl=63`,
      );
      expect(drive.egress(`${reply} tcp SYN ACK`)).toBe(`${vip()} > ${client()} tcp SYN ACK`);
      expect(receive(frameOf(`${request} tcp ACK payload=9`))).toBe(
        `${client()} > ${pod(5)} tcp ACK payload=9`,
      );
      expect(drive.egress(`${reply} tcp ACK payload=5`)).toBe(
        `${vip()} > ${client()} tcp ACK payload=5`,
      );
      expect(drive.confirmed(family)).toHaveLength(1);
      expect(drive.reasons()).toEqual({});
    });

    test('two frontends and one port of the client: each answer comes from its own', () => {
      const rule = { ...direct, set: drive.putSet(2, [1]) };
      drive.putFrontend({ address: at.vip, port: 81, protocol: 'TCP', rules: { host: rule } });
      receive(frameOf(`${request} tcp SYN`));
      const second = receive(frameOf(`${client()} > ${vip(81)} tcp SYN`));
      const [, port = ''] = /:(\d+) > /.exec(second) ?? [];
      expect(second).toBe(`${client(Number(port))} > ${pod(5)} tcp SYN`);
      expect(drive.egress(`${pod(5)} > ${client(Number(port))} tcp SYN ACK`)).toBe(
        `${vip(81)} > ${client()} tcp SYN ACK`,
      );
      expect(drive.egress(`${reply} tcp SYN ACK`)).toBe(`${vip()} > ${client()} tcp SYN ACK`);
    });

    test('UDP and its fragments', () => {
      serve({ protocol: 'UDP' });
      expect(receive(frameOf(`${request} udp payload=3 nosum`))).toBe(
        `${client()} > ${pod(5)} udp payload=3 nosum`,
      );
      expect(receive(frameOf(`${request} udp payload=200 frag=0+ take=104 id=5`))).toContain(
        `${client()} > ${pod(5)} udp frag=0+`,
      );
      expect(receive(frameOf(`${request} udp payload=200 frag=104 take=104 id=5`))).toContain(
        `${at.client} > ${at.pod(5)}`,
      );
      expect(receive(frameOf(`${request} udp payload=200 frag=104 take=104 id=6`))).toBe('dropped');
      expect(drive.reasons()).toEqual({ DROPPED_FRAGMENT: 1 });
    });

    test('a connection that this node has lost goes on', () => {
      expect(receive(frameOf(`${request} tcp ACK payload=9`))).toBe(
        `${client()} > ${pod(5)} tcp ACK payload=9`,
      );
      expect(drive.egress(`${reply} tcp ACK`)).toBe(`${vip()} > ${client()} tcp ACK`);
    });

    test('a flow that went from here in Geneve does not go round', () => {
      drive.putBackend({
        id: 1,
        address: at.pod(5),
        port: 8080,
        state: 'TERMINATING',
        isLocal: true,
      });
      publish(drive, family, {
        rule: direct,
        backends: [{ isLocal: true, state: 'TERMINATING' }, {}],
      });
      const set = drive.putSet(1, [2]);
      const rule = { ...direct, set };
      drive.putFrontend({ address: at.vip, port: 80, protocol: 'TCP', rules: { host: rule } });
      expect(drive.run('fl_ingress', buildFrame(`${request} tcp SYN`)).action).toBe(7);
      expect(receive(frameOf(`${request} tcp ACK`))).toBe(`${client()} > ${pod(5)} tcp ACK`);
      expect(drive.conns(family)).toMatchObject([{ backendId: 1 }]);
    });

    test('the MSS of a SYN-ACK, of no other packet, and of no other flow', () => {
      const overhead = (outer: number, inner: number) => outer + 8 + inner;
      // Either family of nodes may be used: this one has an address of both.
      const most = 1400 - overhead(40, family === 'IPv4' ? 20 : 32) - (family === 'IPv4' ? 40 : 60);
      takeGeneve(drive, { mtu: 1400 });
      receive(frameOf(`${request} tcp SYN`));
      const answer = (mss: number, before: readonly number[] = []): Uint8Array => {
        const options = [...before, 2, 4, mss >> 8, mss & 255];
        while (options.length % 4 !== 0) options.push(1);
        const frame = buildFrame(
          `${reply} tcp SYN ACK doff=${5 + options.length / 4} payload=${options.length}`,
        );
        frame.set(options, frame.length - options.length);
        const [from, to, tcp] = family === 'IPv4' ? [26, 34, 34] : [22, 54, 54];
        const segment = frame.subarray(tcp);
        segment.set([0, 0], 16);
        const sum = ~onesSum(segment, pseudoHeader(frame.subarray(from, to), segment.length, 6));
        segment.set([(sum >>> 8) & 255, sum & 255], 16);
        return frame;
      };
      const mssOf = (frame: Uint8Array, before = 0): number => {
        const { frame: out } = drive.run('fl_egress', frame);
        expect(describeFrame(out)).not.toContain('!tcp-checksum');
        const tcp = family === 'IPv4' ? 34 : 54;
        return Buffer.from(out).readUInt16BE(tcp + 20 + before + 2);
      };
      expect(mssOf(answer(1460))).toBe(most);
      expect(mssOf(answer(most - 1))).toBe(most - 1);
      expect(mssOf(answer(1460, [1]), 1)).toBe(most);
      expect(mssOf(answer(1460, [3, 3, 7]), 3)).toBe(most);
      expect(mssOf(answer(1460, [4, 2]), 2)).toBe(most);
    });

    test('a NodePort of the node that sent it', () => {
      drive.putNodePorts(1);
      const rule = { ...direct, set: drive.putSet(2, [1]) };
      drive.putFrontend({ family, port: 30_080, protocol: 'TCP', rules: { host: rule } });
      const node = at.port(family === 'IPv4' ? '192.0.2.12' : '2001:db8::12', 30_080);
      expect(receive(frameOf(`${client()} > ${node} tcp SYN`))).toBe(
        `${client()} > ${pod(5)} tcp SYN`,
      );
      expect(drive.egress(`${reply} tcp SYN ACK`)).toBe(`${node} > ${client()} tcp SYN ACK`);
    });

    const change = (at: number, ...bytes: number[]): Uint8Array => {
      const frame = frameOf(`${request} tcp SYN`);
      frame.set(bytes, GENEVE_AT[outer] + at);
      return frame;
    };
    const plain = `${request} tcp SYN`;

    test.each([
      ['another VNI', () => change(4, 1, 2, 3), {}],
      ['another class', () => change(8, 0x01, 0x08), {}],
      ['no option', () => change(0, 0), { GENEVE_MALFORMED: 1 }],
      [
        'to another port',
        () => wrap({ from: peer, to: own, port: 6082, backend, inner: plain }),
        {},
      ],
      ['to another address', () => wrap({ from: peer, to: stranger, backend, inner: plain }), {}],
      [
        'truncated before the option',
        () => frameOf(plain).subarray(0, GENEVE_AT[outer] + 8),
        { TRUNCATED_HEADER: 1 },
      ],
      [
        'from a stranger',
        () => wrap({ from: stranger, to: own, backend, inner: plain }),
        { GENEVE_STRANGER: 1 },
      ],
      ['another version of Geneve', () => change(0, 0x43), { GENEVE_MALFORMED: 1 }],
      ['a control packet', () => change(1, 0xc0), { GENEVE_MALFORMED: 1 }],
      ['an Ethernet frame', () => change(2, 0x65, 0x58), { GENEVE_MALFORMED: 1 }],
      ['another type of option', () => change(10, 0x82), { GENEVE_MALFORMED: 1 }],
      ['an option of another length', () => change(11, 9), { GENEVE_MALFORMED: 1 }],
      ['another version of the option', () => change(12, 2), { GENEVE_MALFORMED: 1 }],
      ['flags that are not known', () => change(13, 2), { GENEVE_MALFORMED: 1 }],
      ['SCTP', () => frameOf(`${request} sctp payload=8`), { GENEVE_NOT_A_FRONTEND: 1 }],
      [
        'for a loopback address',
        () => frameOf(`${client()} > ${family === 'IPv4' ? '127.0.0.1:80' : '[::1]:80'} tcp SYN`),
        { DROPPED_MARTIAN: 1 },
      ],
    ] as const)('%s', (name, make, reasons) => {
      const frame = make();
      const expected =
        Object.keys(reasons).length === 0 || name.startsWith('truncated') ? 'left' : 'dropped';
      expect(receive(frame)).toBe(expected);
      expect(drive.reasons()).toEqual(reasons);
      expect(drive.halfOpen(family)).toEqual([]);
    });

    test('one in another is for no Service: it goes back, and no further', () => {
      expect(receive(frameOf(frameOf(plain)))).toBe(family === outer ? 'action 7' : 'dropped');
      expect(drive.halfOpen(family)).toEqual([]);
    });

    test.each([
      ['this node', own],
      ['another node', peer],
    ])('a pod cannot send it to %s, whatever its source', (_name, to) => {
      const frame = wrap({ from: peer, to, backend, inner: plain });
      drive.putDevice({}, { leadsToPod: true });
      expect(receive(frame)).toBe('dropped');
      expect(drive.reasons()).toEqual({ GENEVE_STRANGER: 1 });
      frame.set([1, 2, 3], GENEVE_AT[outer] + 4);
      expect(receive(frame)).toBe('left');
      drive.putDevice({});
      expect(receive(wrap({ from: peer, to: stranger, backend, inner: plain }))).toBe('left');
    });

    test('nor in fragments of which the first one does not tell what it is', () => {
      const size = UDP + (family === 'IPv4' ? 20 : 32);
      const first = (from: string, to: string, take: number): Uint8Array =>
        buildFrame(
          `${endpoint(from, 50_000)} > ${endpoint(to, 6081)} udp payload=200 nosum frag=0+ take=${take} id=5`,
        );
      drive.putDevice({}, { leadsToPod: true });
      for (const to of [own, peer]) {
        for (const take of [8, 16, 24]) expect(receive(first(peer, to, take))).toBe('dropped');
      }
      expect(drive.reasons()).toEqual({ GENEVE_STRANGER: 6 });
      expect(receive(first(peer, stranger, 8))).toBe('left');
      // Of another tunnel.
      expect(receive(first(peer, own, size + 8))).toBe('left');
      drive.putDevice({});
      expect(receive(first(peer, own, 8))).toBe('left');
    });

    test('what was put together on the way, and fragmented again, is no request', () => {
      const frame = wrap({ from: peer, to: own, backend, inner: plain, isCutBefore: 200 });
      expect(receive(frame)).toBe('dropped');
      expect(drive.reasons()).toEqual({ GENEVE_NOT_UNWRAPPED: 1 });
    });

    test('a node that takes none leaves it, and drops that of its pods to anybody', () => {
      takeGeneve(drive, { port: 0 });
      expect(receive(frameOf(plain))).toBe('left');
      drive.putDevice({}, { leadsToPod: true });
      for (const to of [own, stranger]) {
        const frame = wrap({ from: peer, to, backend, inner: plain });
        expect(receive(frame)).toBe('dropped');
        frame.set([1, 2, 3], GENEVE_AT[outer] + 4);
        expect(receive(frame)).toBe('left');
      }
      expect(drive.reasons()).toEqual({ GENEVE_STRANGER: 2 });
    });

    describe('what no node would send in Geneve begins no flow', () => {
      const SENT = 'action 7';

      test.each([
        ['SNAT', { masquerade: true }],
        ['IPIP', { masquerade: true, returnsDirectly: true, inIpip: true }],
      ])('a Service with %s', (_, rule) => {
        serve({ rule });
        expect(receive(frameOf(plain))).toBe(SENT);
        expect(receive(frameOf(`${request} tcp ACK payload=9`))).toBe(SENT);
        expect(drive.reasons()).toEqual({ GENEVE_NOT_A_FRONTEND: 2 });
        expect(drive.halfOpen(family)).toEqual([]);
      });

      test('a client outside of the source ranges', () => {
        serve({ rule: { ...direct, hasSourceRanges: true } });
        expect(receive(frameOf(plain))).toBe(SENT);
        expect(drive.reasons()).toEqual({ GENEVE_NOT_A_FRONTEND: 1 });
        drive.putRange(1, `${at.client}/${family === 'IPv4' ? 32 : 128}`);
        expect(receive(frameOf(plain))).toBe(`${client()} > ${pod(5)} tcp SYN`);
      });

      test.each(['TCP', 'UDP'] as const)(
        'a flow of %s that exists goes on, and ends',
        (protocol) => {
          serve({ protocol });
          const word = protocol === 'TCP' ? 'tcp ACK payload=9' : 'udp payload=9';
          receive(frameOf(`${request} ${protocol === 'TCP' ? 'tcp SYN' : word}`));
          serve({ protocol, rule: { masquerade: true } });
          expect(receive(frameOf(`${request} ${word}`))).toBe(`${client()} > ${pod(5)} ${word}`);
          drive.age(3600, family);
          const first = protocol === 'TCP' ? plain : `${request} ${word}`;
          expect(receive(frameOf(first))).toBe('dropped');
          expect(receive(frameOf(first))).toBe(SENT);
          expect(drive.reasons()).toEqual({ GENEVE_NO_BACKEND: 1, GENEVE_NOT_A_FRONTEND: 1 });
        },
      );
    });
  },
);
