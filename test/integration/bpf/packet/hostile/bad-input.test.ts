// SPDX-License-Identifier: Apache-2.0
// Packets that lie: about who sent them, about being replies, about where their headers are; and packets that another
// program has rewritten in between. Broken headers are in answers.test.ts, forged errors in icmp.test.ts.
import { describe, expect, test } from 'vitest';
import { encodeU32 } from '../../../../../src/engines/bpf/layout/layout.ts';
import { encodePingKey } from '../../../../../src/engines/bpf/layout/packet-layout.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';

const drive = sharedDrive();

const LEFT = 0xffffffff;

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const at = PLACES[family];
  const local = { backends: [{ isLocal: true }] };

  describe('spoofed sources', () => {
    test.each([
      ['the node', () => at.node],
      ['a pod of the node', () => at.pod(9)],
      ['the Service itself', () => at.vip],
      ['the backend', () => at.pod(5)],
    ] as const)('of %s: the backend that is chosen, and back to that source alone', (_, source) => {
      publish(drive, family, { rule: { masquerade: true } });
      const sent = at.port(source(), 41_000);
      const inside = drive.ingress(`${sent} > ${vip()} tcp SYN`);
      expect(inside).toBe(`${sent} > ${pod(5)} tcp SYN`);
      const [from = ''] = drive.egress(inside).split(' ');
      expect(drive.through(`${pod(5)} > ${from} tcp SYN ACK`)).toBe(
        `${vip()} > ${sent} tcp SYN ACK`,
      );
      expect(drive.reasons()).toEqual({});
    });

    test('of a pod, from outside: the rule of pods is that of its source, and nothing else of it', () => {
      drive.putRange(0, family === 'IPv4' ? '10.1.0.0/16' : 'fd00:1::/32');
      drive.putBackend({ id: 1, address: at.pod(5), port: 8080, ...local.backends[0] });
      const rules = {
        pod: { set: drive.putSet(0, [1]) },
        outside: { whenEmpty: 'drop' },
        host: { whenEmpty: 'drop' },
      } as const;
      drive.putFrontend({ address: at.vip, port: 80, rules });
      expect(drive.ingress(`${at.port(at.pod(9), 41_000)} > ${vip()} tcp SYN`)).toContain(pod(5));
      expect(drive.ingress(`${client()} > ${vip()} tcp SYN`)).toBe('dropped');
      expect(drive.reasons()).toEqual({ DROPPED_NO_LOCAL_BACKENDS: 1 });
    });

    test('of another client: it is that client’s flow, and no other’s', () => {
      publish(drive, family, { rule: { masquerade: true } });
      drive.through(`${client()} > ${vip()} tcp SYN`);
      drive.through(`${pod(5)} > ${node(40_000)} tcp SYN ACK`);
      drive.through(`${client()} > ${vip()} tcp ACK`);
      // A RST of the flow cannot be told from the client's, as by conntrack without its window; but only of this flow.
      drive.through(`${client(40_001)} > ${vip()} tcp RST`);
      expect(drive.phases(family)).toEqual(['established']);
    });

    test('of an address that belongs to nobody makes a flow that ends by itself', () => {
      publish(drive, family, { protocol: 'UDP' });
      const nobody = family === 'IPv4' ? '203.0.113.77' : '2001:db8:dead::1';
      expect(drive.ingress(`${at.port(nobody, 9)} > ${vip()} udp payload=1`)).toContain(pod(5));
      expect(drive.confirmed(family)).toEqual([]);
      expect(drive.halfOpen(family)).toHaveLength(1);
    });
  });

  describe('what claims to be a reply', () => {
    test.each(['tcp SYN ACK', 'tcp ACK payload=9', 'tcp FIN ACK', 'tcp ACK PSH payload=1'])(
      'to the Service, of no flow: %s is refused and begins nothing',
      (word) => {
        publish(drive, family);
        for (const source of [client(), pod(5), node(8080)]) {
          expect(drive.ingress(`${source} > ${vip()} ${word}`)).toMatch(/^sent back: .* tcp RST/);
        }
        expect(drive.reasons()).toEqual({ UNKNOWN_CONNECTION: 3 });
        expect(drive.halfOpen(family)).toEqual([]);
      },
    );

    test.each(['tcp SYN ACK', 'tcp RST', 'udp payload=9'])(
      'to the node, of no flow: %s is the node’s own business',
      (word) => {
        publish(drive, family);
        const line = `${pod(5)} > ${node(40_000)} ${word}`;
        expect(drive.through(line)).toBe(line);
        expect(drive.halfOpen(family)).toEqual([]);
      },
    );

    test('of a flow, but from another backend, or to another port: left', () => {
      publish(drive, family, { rule: { masquerade: true } });
      drive.through(`${client()} > ${vip()} tcp SYN`);
      for (const line of [
        `${pod(6)} > ${node(40_000)} tcp SYN ACK`,
        `${pod(5, 8081)} > ${node(40_000)} tcp SYN ACK`,
        `${pod(5)} > ${node(40_001)} tcp SYN ACK`,
        `${pod(5)} > ${node(40_000)} udp payload=1`,
      ]) {
        expect(drive.through(line)).toBe(line);
      }
      expect(drive.conns(family)).toMatchObject([{ state: 'new' }]);
    });
  });

  describe('headers where they should not be', () => {
    test('a later fragment that overlaps the ports of the first changes no port', () => {
      publish(drive, family, { protocol: 'UDP' });
      const first = buildFrame(`${client()} > ${vip()} udp payload=64 frag=0+ take=32 id=7`);
      const over = buildFrame(`${client()} > ${vip()} udp payload=64 frag=8 take=24 id=7`);
      drive.run('fl_ingress', first);
      const { action, frame } = drive.run('fl_ingress', over);
      expect(action).toBe(LEFT);
      // Only addresses, and IPv4's checksum of them.
      const header = 14 + (family === 'IPv4' ? 20 : 48);
      expect(frame.subarray(header)).toEqual(over.subarray(header));
      expect(drive.halfOpen(family)).toHaveLength(1);
    });

    test.each(
      family === 'IPv4' ? ['length=65535', 'ihl=15'] : ['length=65535', 'ext=hop,dst cut=58'],
    )('a length beyond the end: %s is left and counted', (words) => {
      publish(drive, family, { protocol: 'UDP' });
      const sent = buildFrame(`${client()} > ${vip()} udp ${words}`);
      expect(drive.run('fl_ingress', sent)).toEqual({ action: LEFT, frame: sent });
      const [reason] = Object.keys(drive.reasons());
      expect(['TRUNCATED_HEADER', 'BAD_HEADER']).toContain(reason);
      expect(drive.halfOpen(family)).toEqual([]);
    });
  });

  describe('another program rewrites between the hooks', () => {
    const other = family === 'IPv4' ? '192.0.2.99' : '2001:db8::99';

    test('the source: something else masquerades, and its packets are left', () => {
      publish(drive, family, { rule: { masquerade: true } });
      expect(drive.ingress(`${client()} > ${vip()} tcp SYN`)).toBe(
        `${client()} > ${pod(5)} tcp SYN`,
      );
      const masqueraded = `${at.port(other, 50_000)} > ${pod(5)} tcp SYN`;
      expect(drive.egress(masqueraded)).toBe(masqueraded);
      // What has masqueraded translates the reply back before egress.
      expect(drive.egress(`${pod(5)} > ${client()} tcp SYN ACK`)).toBe(
        `${vip()} > ${client()} tcp SYN ACK`,
      );
    });

    test('the destination: the packet is no longer the flow’s', () => {
      publish(drive, family, { rule: { masquerade: true } });
      drive.ingress(`${client()} > ${vip()} tcp SYN`);
      const elsewhere = `${client()} > ${at.port(other, 80)} tcp SYN`;
      expect(drive.egress(elsewhere)).toBe(elsewhere);
    });

    test('before ingress: what is to no frontend any more is left', () => {
      publish(drive, family);
      const rewritten = `${client()} > ${at.port(other, 80)} tcp SYN`;
      expect(drive.through(rewritten)).toBe(rewritten);
      expect(drive.reasons()).toEqual({});
    });
  });
});

describe('IPv6 with v4-mapped addresses on the wire', () => {
  const { client, vip, pod } = names('IPv4');
  const mapped = (address: string, port: number): string => `[::ffff:${address}]:${port}`;
  const { client: from, vip: to } = PLACES.IPv4;

  test('does not change what is known of fragments of IPv4', () => {
    publish(drive, 'IPv4', { protocol: 'UDP' });
    const part = 'udp payload=200 take=104';
    drive.ingress(`${client()} > ${vip()} ${part} frag=0+ id=5`);
    // As the id is stored.
    drive.ingress(`${mapped(from, 1111)} > ${mapped(to, 2222)} ${part} frag=0+ id=327680`);
    expect(drive.ingress(`${client()} > ${vip()} ${part} frag=104 id=5`)).toContain(
      `> ${pod(5).split(':')[0]} `,
    );
  });

  test('as source it is left', () => {
    publish(drive, 'IPv6');
    const sent = buildFrame(`${mapped(from, 41_000)} > ${names('IPv6').vip()} tcp SYN`);
    expect(drive.run('fl_ingress', sent)).toEqual({ action: LEFT, frame: sent });
    expect(drive.conns('IPv6')).toEqual([]);
  });

  test('as destination it is none of the addresses that answer', () => {
    drive.putSettings({ answerPing: true });
    drive.object.map('fl_ping').put(encodePingKey(to), encodeU32(1));
    const echo = (words: string): string => drive.ingress(`${words} payload=4`);
    expect(echo(`${from} > ${to} icmp 8/0`)).toContain('sent back');
    expect(echo(`${PLACES.IPv6.client} > ::ffff:${to} icmp6 128/0`)).not.toContain('sent back');
  });
});

test('a source in 100::/64 stands for sockets in session affinity: such a packet is left', () => {
  const { vip: to } = names('IPv6');
  publish(drive, 'IPv6', { protocol: 'UDP', affinitySeconds: 600 });
  for (const [source, isServed] of [
    ['100::2a', false],
    ['100:0:0:1::2a', true],
  ] as const) {
    const sent = `[${source}]:5000 > ${to()} udp payload=3`;
    expect(drive.ingress(sent) !== sent).toBe(isServed);
  }
  const { keys, count } = drive.object.map('fl_affinity').readAll();
  expect([count, keys[7]]).toEqual([1, 1]);
});

test('what is behind an authentication header is left: its sum covers the addresses', () => {
  const { client, vip } = names('IPv6');
  publish(drive, 'IPv6');
  const sent = `${client()} > ${vip()} tcp SYN`;
  expect(drive.ingress(`${sent} ext=dst`)).not.toContain(vip());
  for (const headers of ['auth', 'hop,auth', 'auth,dst']) {
    expect(drive.ingress(`${sent} ext=${headers}`)).toBe(`${sent} ext=${headers}`);
  }
  expect(drive.conns('IPv6')).toHaveLength(1);
});
