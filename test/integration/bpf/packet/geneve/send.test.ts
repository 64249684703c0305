// SPDX-License-Identifier: Apache-2.0
// Direct return at the node that chooses the backend: requests leave in Geneve, as they came.

import { beforeEach, describe, expect, test } from 'vitest';
import {
  decodePeer,
  encodeNodeAddress,
} from '../../../../../src/engines/bpf/direct-return/direct-layout.ts';
import { livingFlows } from '../../../../../src/engines/bpf/flows/sweep/recount.ts';
import { kernelTables } from '../../../../../src/engines/bpf/kernel/maps/kernel.ts';
import { phaseOf } from '../../../../../src/engines/bpf/layout/conn-layout.ts';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { editConns } from '../../../../support/dataplane/conn-text.ts';
import { buildFrame, withDf } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { readWrapped } from '../../../../support/packets/geneve.ts';
import {
  NODES,
  putBackendNode,
  putPeer,
  removePeer,
  takeGeneve,
  withRoutes,
} from '../support/nodes.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish, type Service } from '../support/stage.ts';

const drive = sharedDrive();
const { setMtu } = withRoutes(drive);
const tables = kernelTables((name) => drive.object.map(name));
const REDIRECTED = 7;
const LEFT = 0xffff_ffff;

describe.each(FAMILIES.flatMap((family) => FAMILIES.map((outer) => [family, outer] as const)))(
  '%s between nodes of %s',
  (family, outer) => {
    const { client, vip, pod } = names(family);
    const at = PLACES[family];
    const { own, peer } = NODES[outer];
    const overhead = (outer === 'IPv4' ? 20 : 40) + 8 + (family === 'IPv4' ? 20 : 32);
    const outerSize = outer === 'IPv4' ? 20 : 40;
    const port = outer === 'IPv4' ? `${peer}:6081` : `[${peer}]:6081`;

    function serve(service: Service = {}): void {
      publish(drive, family, { rule: { masquerade: true, returnsDirectly: true }, ...service });
      putPeer(drive, peer);
      putBackendNode(drive, 1, peer);
      setMtu(1500);
    }
    const send = (line: string) => {
      const { action, frame } = drive.run('fl_ingress', buildFrame(line));
      return { action, ...readWrapped(frame) };
    };
    const request = `${client()} > ${vip()}`;
    const peerAsClient = family === 'IPv4' ? `${peer}:40000` : `[${peer}]:40000`;

    beforeEach(() => serve());

    test('a SYN leaves as it came, one hop on, for the backend that was chosen', () => {
      const sent = send(`${request} tcp SYN seq=7`);
      expect(sent).toMatchObject({
        action: REDIRECTED,
        outer: `${outer === 'IPv4' ? own : `[${own}]`} > ${port} udp nosum`,
        vni: 0xfa1ead,
        option: family === 'IPv4' ? 'ff4681020100' : 'ff4681050100',
        backend: pod(5),
        inner: `${request} tcp SYN seq=7 ttl=63`,
      });
      expect(sent.sourcePort).toBeGreaterThanOrEqual(0xc000);
    });

    test('its connection is one-sided here, moves by the client, and ends with it', () => {
      send(`${request} tcp SYN`);
      expect(drive.conns(family)).toMatchObject([{ isOneSided: true, reply: undefined }]);
      const sent = send(`${request} tcp ACK payload=9`);
      expect(sent.inner).toBe(`${request} tcp ACK payload=9 ttl=63`);
      expect(drive.halfOpen(family)).toMatchObject([{ packets: 2, state: 'established' }]);
      send(`${request} tcp FIN ACK`);
      expect(drive.phases(family)).toEqual(['half-closed']);
      expect(drive.reasons()).toEqual({});
    });

    test('its flow is among the living ones of the backend, from its first packet to its end', () => {
      const living = (): number => livingFlows(tables.backendFlows, 1);
      send(`${request} tcp SYN`);
      send(`${request} tcp ACK`);
      expect(living()).toBe(1);
      send(`${request} tcp FIN ACK`);
      send(`${request} tcp SYN`);
      expect(living()).toBe(1);
      removePeer(drive, peer);
      drive.run('fl_ingress', buildFrame(`${request} tcp ACK`));
      expect([living(), drive.conns(family)]).toEqual([0, []]);
    });

    test('a client with an address of the node of the backend is masqueraded', () => {
      serve();
      if (family === outer) {
        const { action } = drive.run(
          'fl_ingress',
          buildFrame(`${peerAsClient} > ${vip()} tcp SYN`),
        );
        expect(action).not.toBe(REDIRECTED);
        expect(drive.conns(family).filter(({ isOneSided }) => !isOneSided)).toHaveLength(1);
      }
      expect(send(`${request} tcp SYN`).action).toBe(REDIRECTED);
    });

    test('UDP, with a checksum and without', () => {
      serve({ protocol: 'UDP' });
      expect(send(`${request} udp payload=3`).inner).toBe(`${request} udp payload=3 ttl=63`);
      expect(send(`${request} udp payload=3 nosum`).inner).toBe(
        `${request} udp payload=3 nosum ttl=63`,
      );
      // Later than in the first second it is established.
      expect(drive.conns(family)).toHaveLength(1);
    });

    test('fragments follow the first one', () => {
      serve({ protocol: 'UDP' });
      const first = send(`${request} udp payload=200 frag=0+ take=104 id=5`);
      expect(first.inner).toContain('frag=0+ id=5');
      const later = send(`${request} udp payload=200 frag=104 take=104 id=5`);
      expect(later.inner).toContain('frag=104 id=5');
      expect(later.backend).toBe(first.backend);
    });

    test.each([
      ['the node takes no Geneve', () => removePeer(drive, peer)],
      ['its node is not known', () => putBackendNode(drive, 1)],
      ['the rule has no such flag', () => serve({ rule: { masquerade: true } })],
      ['the client stays as it is', () => serve({ rule: { returnsDirectly: true } })],
    ])('goes by the stack if %s', (_, change) => {
      change();
      expect(drive.ingress(`${request} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
      expect(drive.reasons()).toEqual({});
    });

    test('a node that ceases to take Geneve: what goes on ends, what begins goes by the stack', () => {
      send(`${request} tcp SYN`);
      send(`${request} tcp ACK`);
      removePeer(drive, peer);
      expect(drive.ingress(`${request} tcp ACK ack=5`)).toContain('sent back: ');
      expect(drive.reasons()).toEqual({ DIRECT_NO_PEER: 1, UNKNOWN_CONNECTION: 1 });
      expect(drive.ingress(`${request} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
    });

    test('ends as well while connections that are not known may be those of a former proxy', () => {
      drive.putSettings({ resetUnknownFrom: process.hrtime()[0] + 60 });
      send(`${request} tcp SYN`);
      send(`${request} tcp ACK`);
      removePeer(drive, peer);
      expect(drive.ingress(`${request} tcp ACK ack=5`)).toContain('sent back: ');
      const line = `${request} tcp ACK ack=5`;
      expect(drive.ingress(line)).toBe(line);
    });

    describe('a node', () => {
      const other = `${client(40_001)} > ${vip()} tcp SYN`;
      const masqueraded = `${client(40_001)} > ${pod(5)} tcp SYN`;
      /** What this node has sent for the first flow, from its outer network header on. */
      let sent: Uint8Array;
      /** That nobody is at its port, as any of its address or another one may say: `from` sends it to `to`, and it quotes this. */
      function closed(from: string, { quoted = sent, to = own as string } = {}): void {
        const error = outer === 'IPv4' ? 'icmp 3/3' : 'icmp6 1/4';
        const source = outer === 'IPv4' ? `${to}:50000` : `[${to}]:50000`;
        const udp = quoted.length - outerSize - 8;
        const frame = buildFrame(
          `${from} > ${to} ${error} | ${source} > ${port} udp payload=${udp} nosum`,
        );
        const whole = to === own ? quoted : quoted.subarray(outerSize);
        frame.set(whole, frame.length - whole.length);
        expect(drive.run('fl_ingress', frame)).toEqual({ action: LEFT, frame });
      }
      beforeEach(() => {
        takeGeneve(drive);
        sent = drive.run('fl_ingress', buildFrame(`${request} tcp SYN`)).frame.subarray(14);
      });

      test('without its annotation: what exists goes on, until its port is closed', () => {
        putPeer(drive, peer, 0);
        expect(drive.ingress(other)).toBe(masqueraded);
        expect(send(`${request} tcp ACK`)).toMatchObject({ action: REDIRECTED, backend: pod(5) });
        expect(send(`${request} tcp ACK payload=9`).outer).toContain(port);
        closed(outer === 'IPv4' ? '192.0.2.254' : '2001:db8::fe');
        expect(send(`${request} tcp ACK payload=9`).action).toBe(REDIRECTED);
        closed(peer);
        expect(drive.ingress(`${request} tcp ACK ack=5`)).toContain('sent back: ');
        expect(drive.reasons()).toMatchObject({ DIRECT_ICMP: 2, DIRECT_NO_PEER: 1 });
      });

      test('with its annotation, whose port is closed: what begins goes by the stack', () => {
        send(`${client(40_002)} > ${vip()} tcp SYN`);
        send(`${request} tcp ACK`);
        closed(peer);
        expect(drive.ingress(other)).toBe(masqueraded);
        expect(drive.ingress(`${client(40_002)} > ${vip()} tcp SYN`)).toBe(
          `${client(40_002)} > ${pod(5)} tcp SYN`,
        );
        expect(send(`${request} tcp ACK payload=9`).action).toBe(REDIRECTED);
      });

      const innerPort = overhead + (family === 'IPv4' ? 20 : 40);
      const flipped = (at: number) => sent.map((byte, place) => (place === at ? byte ^ 1 : byte));
      /** Byte 1 of a record has its flags. */
      const goesBySnat = (words: Uint32Array): void => {
        words[0] = (words[0] ?? 0) & ~0xff00;
      };
      test.each([
        ['comes from another port', () => flipped(outerSize + 1)],
        ['is for another port', () => flipped(outerSize + 3)],
        ['is of another tunnel', () => flipped(outerSize + 12)],
        ['is of no flow', () => flipped(innerPort + 1)],
        ['ends before the packet inside', () => sent.slice(0, innerPort)],
        [
          'is of a flow that does not go directly',
          () => {
            editConns(drive.object, family, goesBySnat);
            return sent;
          },
        ],
      ])('keeps what begins if what the error quotes %s', (_, make) => {
        closed(peer, { quoted: make() });
        expect(send(other).action).toBe(REDIRECTED);
      });

      test('and if what it quotes is from no address of this one', () => {
        closed(peer, { to: NODES[outer].stranger });
        expect(send(other).action).toBe(REDIRECTED);
        expect(drive.reasons()).toEqual({});
      });

      test('whose error quotes no more of the packet inside than its ports', () => {
        closed(peer, { quoted: sent.subarray(0, innerPort + 8) });
        expect(drive.ingress(other)).toBe(masqueraded);
      });
    });

    test('a backend that is gone', () => {
      drive.putSettings({ resetGone: true });
      send(`${request} tcp SYN`);
      drive.putBackend({ id: 1, address: at.pod(5), port: 8080, state: 'GONE' });
      expect(drive.ingress(`${request} tcp ACK ack=5`)).toContain('sent back: ');
    });

    test('a SYN of a connection that has ended begins another', () => {
      send(`${request} tcp SYN`);
      send(`${request} tcp RST`);
      removePeer(drive, peer);
      expect(drive.ingress(`${request} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
      expect(drive.reasons()).toEqual({});
    });

    describe('a SYN of a connection in which the client has sent a FIN', () => {
      const backends = [{}, {}, {}, {}];
      /** The backend. */
      function halfClose(port: number): string {
        const from = `${client(port)} > ${vip()} tcp`;
        const { backend } = send(`${from} SYN seq=1000`);
        send(`${from} ACK seq=1001 ack=5001`);
        send(`${from} FIN ACK seq=1001 ack=5001`);
        return backend;
      }
      const backendsOf = (port: number, word: string) =>
        send(`${client(port)} > ${vip()} tcp ${word}`).backend;
      beforeEach(() => {
        serve({ backends });
        for (const id of [2, 3, 4]) putBackendNode(drive, id, peer);
      });

      test('the backend stays, and what follows may be another connection', () => {
        for (let port = 41_000; port < 41_012; port++) {
          const backend = halfClose(port);
          expect(backendsOf(port, 'SYN seq=3000000000')).toBe(backend);
          expect(backendsOf(port, 'ACK seq=1002 ack=6001')).toBe(backend);
        }
        const backend = halfClose(42_000);
        const stateOf = () =>
          drive
            .conns(family)
            .filter(({ client: { port } }) => port === 42_000)
            .map(({ state }) => phaseOf(state))[0];
        expect(backendsOf(42_000, 'SYN seq=3000000000')).toBe(backend);
        expect(stateOf()).toBe('half-closed');
        expect(backendsOf(42_000, 'ACK seq=3000000001 ack=9')).toBe(backend);
        expect(stateOf()).toBe('established');
        backendsOf(42_000, 'RST seq=1002');
        expect(stateOf(), 'of the former one').toBe('established');
        backendsOf(42_000, 'FIN ACK seq=3000000001 ack=9');
        expect(stateOf()).toBe('half-closed');
      });

      test.each([
        [
          'two minutes later',
          () => {
            drive.age(125, family);
          },
        ],
        [
          'when the backend takes no new connections',
          () => {
            for (const id of [1, 2, 3]) {
              const backend = { id, address: at.pod(4 + id), port: 8080 };
              drive.putBackend({ ...backend, state: 'TERMINATING' });
            }
            const set = drive.putSet(2, [4]);
            const rule = { masquerade: true, returnsDirectly: true, set };
            drive.putFrontend({ address: at.vip, port: 80, rules: { host: rule } });
          },
        ],
      ])('%s another one is chosen', (_, change) => {
        const before = Array.from({ length: 12 }, (_, i) => halfClose(41_000 + i));
        change();
        const after = before.map((_, i) => backendsOf(41_000 + i, 'SYN seq=3000000000'));
        expect(after.filter((backend, i) => backend !== before[i]).length).toBeGreaterThan(0);
      });
    });

    test('no route', () => {
      send(`${request} tcp SYN`);
      putPeer(drive, outer === 'IPv4' ? '198.18.0.1' : '2001:db8:bad::1');
      putBackendNode(drive, 1, outer === 'IPv4' ? '198.18.0.1' : '2001:db8:bad::1');
      expect(drive.ingress(`${request} tcp ACK`)).toBe('dropped');
      expect(drive.reasons()).toEqual({ DIRECT_NO_ROUTE: 1 });
    });

    test('one that would be too big is refused by the address it is for, with the MTU that is left', () => {
      send(`${request} tcp SYN`);
      const headers = family === 'IPv4' ? 40 : 60;
      const most = 1500 - overhead - headers;
      expect(send(`${request} tcp ACK payload=${most}`).action).toBe(REDIRECTED);
      const error = family === 'IPv4' ? 'icmp 3/4' : 'icmp6 2/0';
      const told = drive.ingress(`${request} tcp ACK payload=${most + 1}`);
      expect(told).toMatch(
        new RegExp(`^sent back: ${at.vip} > ${at.client} ${error} mtu=${1500 - overhead} `),
      );
      expect(told).not.toContain('!');
      expect(drive.reasons()).toEqual({ DIRECT_TOO_BIG: 1 });
    });

    test('the MTU of the route, and what an ICMP error tells of the way', () => {
      setMtu(1400);
      send(`${request} tcp SYN`);
      const error = family === 'IPv4' ? 'icmp 3/4' : 'icmp6 2/0';
      const mtu = (told: string) => Number(/mtu=(\d+)/.exec(told)?.[1]);
      const big = `${request} tcp ACK payload=1350`;
      expect(mtu(drive.ingress(big))).toBe(1400 - overhead);
      expect(drive.ingress(big)).toContain(error);
      const [from, kind] =
        outer === 'IPv4' ? ['192.0.2.254', 'icmp 3/4'] : ['2001:db8::fe', 'icmp6 2/0'];
      const quoted = outer === 'IPv4' ? `${own}:50000 > ${port}` : `[${own}]:50000 > ${port}`;
      const line = `${from} > ${own} ${kind} mtu=1370 | ${quoted} udp payload=60 nosum`;
      expect(drive.ingress(line)).toBe(line);
      expect(mtu(drive.ingress(big))).toBe(1370 - overhead);
      const value = drive.object.map('fl_peer').get(encodeNodeAddress(peer));
      expect(value && decodePeer(value)).toEqual({ port: 6081, pathMtu: 1370 });
      expect(drive.reasons()).toEqual({ DIRECT_TOO_BIG: 3, DIRECT_ICMP: 1 });
    });

    test.each([0, 68, 1_280])('a forged error of %i leaves what every client may send', (told) => {
      setMtu(1400);
      const least = family === 'IPv4' ? 552 : 1_280;
      const full = `${request} tcp ACK payload=${least - (family === 'IPv4' ? 40 : 60)}`;
      send(`${request} tcp SYN`);
      const [from, kind] =
        outer === 'IPv4' ? ['192.0.2.254', 'icmp 3/4'] : ['2001:db8::fe', 'icmp6 2/0'];
      const quoted = outer === 'IPv4' ? `${own}:50000 > ${port}` : `[${own}]:50000 > ${port}`;
      drive.ingress(`${from} > ${own} ${kind} mtu=${told} | ${quoted} udp payload=60 nosum`);
      expect(drive.reasons()).toEqual({ DIRECT_ICMP: 1 });
      expect(send(full).inner).toBe(`${full} ttl=63`);
    });

    test('the last hop', () => {
      const error = family === 'IPv4' ? 'icmp 11/0' : 'icmp6 3/0';
      expect(drive.ingress(`${request} tcp SYN ttl=1`)).toContain(
        `sent back: ${at.vip} > ${at.client} ${error} | ${request} tcp SYN`,
      );
      expect(drive.reasons()).toEqual({ DIRECT_TIME_EXCEEDED: 1 });
    });

    test('an ICMP error of the client reaches the backend', () => {
      send(`${request} tcp SYN`);
      const type = family === 'IPv4' ? 'icmp 3/1' : 'icmp6 1/0';
      expect(
        drive.ingress(`${at.client} > ${at.vip} ${type} | ${vip()} > ${client()} tcp ACK seq=5`),
      ).toBe(`${at.client} > ${at.pod(5)} ${type} | ${pod(5)} > ${client()} tcp ACK seq=5`);
    });

    test('a datagram that is too big and may be fragmented takes its flow to SNAT, and to the same backend', () => {
      if (family === 'IPv6') return;
      serve({ protocol: 'UDP', backends: Array.from({ length: 8 }, () => ({})) });
      for (let id = 1; id <= 8; id++) putBackendNode(drive, id, peer);
      const { backend } = send(`${request} udp payload=3`);
      const big = `${request} udp payload=1470`;
      expect(drive.ingress(big)).toBe(`${client()} > ${backend} udp payload=1470`);
      expect(drive.conns(family).filter(({ isOneSided }) => !isOneSided)).toHaveLength(1);
      expect(drive.ingress(`${request} udp payload=3`)).toContain(`> ${backend} udp`);
      const { frame } = drive.run('fl_ingress', withDf(buildFrame(big)));
      expect(describeFrame(frame)).toContain(`> ${backend} udp`);
      expect(drive.reasons()).toEqual({});
    });

    test.each([
      ['takes no more', () => putPeer(drive, peer, 0)],
      ['is none any more', () => removePeer(drive, peer)],
    ])('a datagram to a node that %s takes its flow to SNAT, and to the same backend', (_, end) => {
      serve({ protocol: 'UDP', backends: Array.from({ length: 8 }, () => ({})) });
      for (let id = 1; id <= 8; id++) putBackendNode(drive, id, peer);
      const { backend } = send(`${request} udp payload=3`);
      end();
      expect(drive.ingress(`${request} udp payload=3`)).toContain(`> ${backend} udp`);
      expect(drive.ingress(`${request} udp payload=4`)).toContain(`> ${backend} udp`);
      expect(drive.reasons()).toEqual({ DIRECT_NO_PEER: 1 });
    });

    test('the same where the frontend has SNAT ports, and a connection that would be answered so', () => {
      serve({ protocol: 'UDP', backends: Array.from({ length: 8 }, () => ({})) });
      for (let id = 1; id <= 8; id++) putBackendNode(drive, id, peer);
      const { backend } = send(`${request} udp payload=3`);
      // The other way round: from the frontend, through another Service, to the client.
      const other = at.pod(200);
      drive.putDevice({ [family]: at.vip });
      drive.putBackend({ id: 30, address: at.client, port: 40_000, serviceId: 2 });
      drive.putFrontend({
        ...{ address: other, port: 80, protocol: 'UDP' },
        rules: { host: { masquerade: true, set: drive.putSet(40, [30], 2) } },
      });
      expect(drive.through(`${vip()} > ${at.port(other, 80)} udp payload=2`)).toContain(
        `> ${client()} udp`,
      );
      putPeer(drive, peer, 0);
      expect(drive.ingress(`${request} udp payload=3`)).toContain(`> ${backend} udp`);
    });

    test('a datagram that is too big and may not', () => {
      if (family === 'IPv6') return;
      serve({ protocol: 'UDP' });
      const { action, frame } = drive.run(
        'fl_ingress',
        withDf(buildFrame(`${request} udp payload=1470`)),
      );
      expect(action).toBe(REDIRECTED);
      expect(describeFrame(frame)).toContain(
        `${at.vip} > ${at.client} icmp 3/4 mtu=${1500 - overhead}`,
      );
    });
  },
);
