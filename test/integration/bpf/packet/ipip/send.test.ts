// SPDX-License-Identifier: Apache-2.0
// IPIP to real servers: requests leave as they came, behind one header, and their flows are those of direct return.
import { beforeEach, describe, expect, test } from 'vitest';
import { encodeNodeAddress } from '../../../../../src/engines/bpf/direct-return/direct-layout.ts';
import { buildFrame, withDf } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { readIpip } from '../../../../support/packets/ipip.ts';
import { NODES, putBackendNode, putPeer, withRoutes } from '../support/nodes.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish, type Service } from '../support/stage.ts';

const drive = sharedDrive();
const { setMtu } = withRoutes(drive);
const REDIRECTED = 7;
const RULE = { masquerade: true, returnsDirectly: true, inIpip: true };
const WAYS = [
  ['IPv4', 20, 4],
  ['IPv6', 40, 41],
] as const;

describe.each(WAYS)('%s', (family, overhead, protocol) => {
  const { client, vip, pod } = names(family);
  const at = PLACES[family];
  const { own, peer: server, stranger: other } = NODES[family];
  const request = `${client()} > ${vip()}`;
  const atServer = at.port(server, 80);

  /** Backend 1 is a real server, with the Service's port. */
  function serve(service: Service = {}): void {
    const backends = [{ address: server }];
    publish(drive, family, { rule: RULE, backends, backendPort: 80, ...service });
    putBackendNode(drive, 1, server);
    setMtu(1500);
  }
  const send = (line: string) => {
    const { action, frame } = drive.run('fl_ingress', buildFrame(line));
    return { action, ...readIpip(frame) };
  };

  beforeEach(() => serve());

  test('a SYN leaves as it came, one hop on', () => {
    expect(send(`${request} tcp SYN seq=7`)).toEqual({
      action: REDIRECTED,
      outer: `${own} > ${server} protocol=${protocol} ttl=64${family === 'IPv4' ? ' df' : ''}`,
      inner: `${request} tcp SYN seq=7 ttl=63`,
    });
  });

  test('its connection is one-sided here, moves by the client, and ends with it', () => {
    send(`${request} tcp SYN`);
    expect(drive.conns(family)).toMatchObject([{ isOneSided: true, reply: undefined }]);
    expect(send(`${request} tcp ACK payload=9`).inner).toBe(`${request} tcp ACK payload=9 ttl=63`);
    expect(drive.halfOpen(family)).toMatchObject([{ packets: 2, state: 'established' }]);
    send(`${request} tcp FIN ACK`);
    expect(drive.phases(family)).toEqual(['half-closed']);
    expect(drive.reasons()).toEqual({});
  });

  test('UDP, with a checksum and without, and fragments behind the first one', () => {
    serve({ protocol: 'UDP' });
    for (const words of [
      'udp payload=3',
      'udp payload=3 nosum',
      'udp payload=200 frag=0+ take=104 id=5',
      'udp payload=200 frag=104 take=104 id=5',
    ]) {
      const { outer, inner } = send(`${request} ${words}`);
      expect(outer).toContain(`> ${server} protocol=${protocol}`);
      expect(inner).toContain('ttl=63');
      expect(inner).not.toContain('!');
    }
    expect(drive.reasons()).toEqual({});
  });

  test.each([
    ['the backend is no real server', () => putBackendNode(drive, 1)],
    [
      'it is on a node that takes Geneve',
      () => {
        putPeer(drive, other);
        putBackendNode(drive, 1, other);
      },
    ],
    ['the rule says nothing', () => serve({ rule: { masquerade: true } })],
    ['the client stays as it is', () => serve({ rule: { ...RULE, masquerade: false } })],
  ])('goes by the stack if %s', (_, change) => {
    change();
    expect(drive.ingress(`${request} tcp SYN`)).toBe(`${client()} > ${atServer} tcp SYN`);
    expect(drive.reasons()).toEqual({});
  });

  test('a rule without IPIP sends to no real server', () => {
    serve({ rule: { masquerade: true, returnsDirectly: true } });
    expect(drive.ingress(`${request} tcp SYN`)).toBe(`${client()} > ${atServer} tcp SYN`);
  });

  test('a flow goes on as it has begun when the Service asks for Geneve', () => {
    send(`${request} tcp SYN`);
    serve({ rule: { masquerade: true, returnsDirectly: true } });
    expect(send(`${request} tcp ACK`).outer).toContain(`protocol=${protocol}`);
  });

  test('a flow whose backend is no real server any more ends', () => {
    send(`${request} tcp SYN`);
    send(`${request} tcp ACK`);
    putBackendNode(drive, 1);
    expect(drive.ingress(`${request} tcp ACK ack=5`)).toContain('sent back: ');
    expect(drive.reasons()).toEqual({ DIRECT_NO_PEER: 1, UNKNOWN_CONNECTION: 1 });
  });

  test('no route: what begins goes by the stack, which says so', () => {
    const nowhere = family === 'IPv4' ? '198.18.0.1' : '2001:db8:bad::1';
    serve({ backends: [{ address: nowhere }] });
    putBackendNode(drive, 1, nowhere);
    expect(drive.ingress(`${request} tcp SYN`)).toContain(`> ${at.port(nowhere, 80)} tcp SYN`);
  });

  const error = family === 'IPv4' ? 'icmp 3/4' : 'icmp6 2/0';
  const headers = family === 'IPv4' ? 40 : 60;
  const mtu = (told: string) => Number(/mtu=(\d+)/.exec(told)?.[1]);

  test('one that would be too big is refused by the address it is for, with the MTU that is left', () => {
    send(`${request} tcp SYN`);
    const most = 1500 - overhead - headers;
    expect(send(`${request} tcp ACK payload=${most}`).action).toBe(REDIRECTED);
    const told = drive.ingress(`${request} tcp ACK payload=${most + 1}`);
    expect(told).toMatch(
      new RegExp(`^sent back: ${at.vip} > ${at.client} ${error} mtu=${1500 - overhead} `),
    );
    expect(told).not.toContain('!');
    expect(drive.reasons()).toEqual({ DIRECT_TOO_BIG: 1 });
  });

  describe('the MTU', () => {
    const big = `${request} tcp ACK payload=1350`;
    const [router, tell] =
      family === 'IPv4' ? ['192.0.2.254', 'icmp 3/4'] : ['2001:db8::fe', 'icmp6 2/0'];
    /** An error that quotes the outer header, and 8 bytes of what is inside. */
    const errorAbout = (destination: string, to: string, told = 1330): Uint8Array => {
      const quoted = `${at.port(own, 1)} > ${at.port(destination, 1)} udp nosum`;
      const frame = buildFrame(`${router} > ${to} ${tell} mtu=${told} | ${quoted}`);
      frame[14 + overhead + 8 + (family === 'IPv4' ? 9 : 6)] = protocol;
      return frame;
    };

    test('of the route', () => {
      setMtu(1400);
      send(`${request} tcp SYN`);
      expect(mtu(drive.ingress(big))).toBe(1400 - overhead);
    });

    test('that an ICMP error tells of the way to the server', () => {
      send(`${request} tcp SYN`);
      expect(send(big).action).toBe(REDIRECTED);
      const { action } = drive.run('fl_ingress', errorAbout(server, own));
      expect(action).toBe(0xffffffff);
      expect(mtu(drive.ingress(big))).toBe(1330 - overhead);
      expect(drive.reasons()).toEqual({ DIRECT_TOO_BIG: 1, DIRECT_ICMP: 1 });
    });

    test('and what every client may send fits, whatever an error tells', () => {
      const least = family === 'IPv4' ? 552 : 1_280;
      const full = `${request} tcp ACK payload=${least - headers}`;
      send(`${request} tcp SYN`);
      drive.run('fl_ingress', errorAbout(server, own, 68));
      expect(send(full).inner).toBe(`${full} ttl=63`);
      expect(drive.reasons()).toEqual({ DIRECT_ICMP: 1 });
    });

    test('and not if the error is for another address, or about another server', () => {
      send(`${request} tcp SYN`);
      drive.run('fl_ingress', errorAbout(server, at.vip));
      expect(send(big).action).toBe(REDIRECTED);
      drive.run('fl_ingress', errorAbout(at.pod(7), own));
      expect(send(big).action).toBe(REDIRECTED);
      // An error about what was never sent to takes no room from real servers.
      const told = drive.object.map('fl_path_mtu');
      expect(told.get(encodeNodeAddress(at.pod(7)))).toBeUndefined();
      expect(told.get(encodeNodeAddress(server))).toBeDefined();
    });
  });

  test('the last hop', () => {
    const exceeded = family === 'IPv4' ? 'icmp 11/0' : 'icmp6 3/0';
    expect(drive.ingress(`${request} tcp SYN ttl=1`)).toContain(
      `sent back: ${at.vip} > ${at.client} ${exceeded} | ${request} tcp SYN`,
    );
  });

  test('a backend of this node is served as any', () => {
    const rule = { ...RULE, keepsLocalClient: true };
    const backends = [{ address: at.pod(5), isLocal: true }];
    serve({ rule, backends, backendPort: 8080 });
    expect(drive.ingress(`${request} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
  });

  test('a datagram that is too big and may be fragmented takes its flow to SNAT, at the same server', () => {
    if (family === 'IPv6') return;
    serve({ protocol: 'UDP' });
    send(`${request} udp payload=3`);
    const big = `${request} udp payload=1470`;
    expect(drive.ingress(big)).toBe(`${client()} > ${atServer} udp payload=1470`);
    expect(drive.conns(family)).toMatchObject([{ isOneSided: false }]);
    expect(drive.reasons()).toEqual({});
    serve({ protocol: 'UDP' });
  });

  test('and one that may not be is refused', () => {
    if (family === 'IPv6') return;
    serve({ protocol: 'UDP' });
    const { frame } = drive.run('fl_ingress', withDf(buildFrame(`${request} udp payload=1470`)));
    expect(describeFrame(frame)).toContain(
      `${at.vip} > ${at.client} icmp 3/4 mtu=${1500 - overhead}`,
    );
  });
});
