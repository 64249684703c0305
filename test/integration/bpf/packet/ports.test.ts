// SPDX-License-Identifier: Apache-2.0
// SNAT ports: whose they are, which one is chosen next, and what happens when none is left.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { beforeEach, describe, expect, test } from 'vitest';
import { SETTINGS } from './support/packet-drive.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';

const drive = sharedDrive();

const masquerade = { rule: { masquerade: true } };
const sourcePort = (line: string): number => Number(/:(\d+) > /.exec(line)?.[1] ?? 0);

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { vip, node, pod } = names(family);
  const at = PLACES[family];
  const other =
    family === 'IPv4' ? (n: number) => `198.51.100.${n}` : (n: number) => `2001:db8::a:${n}`;
  const from = (n: number, word = 'tcp SYN', port = 40_000): string =>
    drive.through(`${at.port(other(n), port)} > ${vip()} ${word}`);

  /** More half-open connections than there are slots for. */
  const flood = (word: string): void => {
    for (let n = 0; n < 12_000; n += 1) from(2 + (n & 127), word, 42_000 + (n >> 7));
  };

  test('clients with one port get different ones, in the range, and their own replies', () => {
    publish(drive, family, masquerade);
    const ports = Array.from({ length: 30 }, (_, n) => sourcePort(from(n + 1)));
    expect(ports[0]).toBe(40_000);
    expect(new Set(ports).size).toBe(30);
    expect(ports.slice(1).every((port) => port >= 61_000)).toBe(true);
    ports.forEach((port, n) => {
      expect(drive.through(`${pod(5)} > ${node(port)} tcp SYN ACK`)).toBe(
        `${vip()} > ${at.port(other(n + 1), 40_000)} tcp SYN ACK`,
      );
    });
  });

  describe('a client’s port, of flows through two frontends to one backend', () => {
    const through = (port: number, flags: string): string =>
      drive.ingress(`${at.port(other(1), 40_000)} > ${vip(port)} tcp ${flags}`);
    const servePorts = (...ports: readonly number[]): void => {
      publish(drive, family);
      drive.putSettings({ snatPorts: { first: 61_000, last: 61_000 } });
      const rules = { host: { set: drive.putSet(0, [1]) } };
      for (const port of ports) drive.putFrontend({ address: at.vip, port, rules });
    };

    test.each([
      ['the first', 80, 40_000],
      ['the second', 81, 61_000],
    ])('that of %s is used again once that has ended, if no other is free', (_, ended, port) => {
      servePorts(81, 82);
      expect(sourcePort(through(80, 'SYN seq=1'))).toBe(40_000);
      expect(sourcePort(through(81, 'SYN seq=2'))).toBe(61_000);
      expect(through(82, 'SYN seq=3')).toBe('dropped');
      through(ended, 'RST');
      expect(sourcePort(through(82, 'SYN seq=4'))).toBe(port);
      const living = ended === 80 ? 81 : 80;
      expect(sourcePort(through(living, 'ACK'))).toBe(ended === 80 ? 61_000 : 40_000);
      expect(through(ended, 'ACK ack=1'), 'its flow is gone').toContain('sent back');
      expect(sourcePort(through(82, 'ACK'))).toBe(port);
    });
  });

  test('a port that the node may give to its own connections is the last resort', () => {
    publish(drive, family, masquerade);
    const localPorts = { first: 50_000, last: 60_999 };
    drive.putSettings({ localPorts });
    expect(sourcePort(from(1, 'tcp SYN', 50_000))).toBeGreaterThanOrEqual(61_000);
    expect(sourcePort(from(2, 'tcp SYN', 49_999))).toBe(49_999);
    drive.putSettings({ localPorts, snatPorts: { first: 61_000, last: 61_000 } });
    expect(sourcePort(from(3, 'tcp SYN', 60_999))).toBe(61_000);
    answer(61_000);
    from(3, 'tcp ACK', 60_999);
    expect(sourcePort(from(4, 'tcp SYN', 60_999))).toBe(60_999);
  });

  test('port 0, from which a datagram asks for no answer, is never one', () => {
    publish(drive, family, { ...masquerade, protocol: 'UDP' });
    const ports = [1, 2].map(() => sourcePort(from(1, 'udp payload=1', 0)));
    expect(ports[0]).toBeGreaterThanOrEqual(61_000);
    expect(ports[1]).toBe(ports[0]);
  });

  test('a port is taken per backend: another backend’s flow may have it too', () => {
    publish(drive, family, { ...masquerade, protocol: 'UDP' });
    drive.putBackend({ id: 2, address: at.pod(6), port: 8080 });
    drive.putFrontend({
      ...{ address: at.vip, port: 81, protocol: 'UDP' as const },
      rules: { host: { masquerade: true, set: drive.putSet(1, [2]) } },
    });
    expect(sourcePort(from(1, 'udp payload=1'))).toBe(40_000);
    const line = drive.through(`${at.port(other(2), 40_000)} > ${vip(81)} udp payload=1`);
    expect(line).toBe(`${node(40_000)} > ${pod(6)} udp payload=1`);
  });

  test('a connection that has expired finds the same port again', () => {
    publish(drive, family, masquerade);
    from(1);
    const port = sourcePort(from(2));
    drive.age(25, family, ({ reply }) => reply?.port === port);
    expect(sourcePort(from(2))).toBe(port);
  });

  test('no port left: dropped and counted, and nobody else’s port is used', () => {
    publish(drive, family, masquerade);
    drive.putSettings({ snatPorts: { first: 61_000, last: 61_003 } });
    const lines = Array.from({ length: 12 }, (_, n) => {
      const line = from(n + 1);
      if (line !== 'dropped') {
        answer(sourcePort(line));
        from(n + 1, 'tcp ACK');
      }
      return line;
    });
    const ports = lines.filter((line) => line !== 'dropped').map(sourcePort);
    expect(new Set(ports).size).toBe(ports.length);
    expect(ports.length).toBeLessThanOrEqual(5);
    expect(ports.length).toBeGreaterThan(1);
    expect(drive.reasons()).toEqual({ DROPPED_NO_PORT: 12 - ports.length });
  });

  test('half-open connections of one client do not use them up', () => {
    publish(drive, family, masquerade);
    drive.putSettings({ snatPorts: { first: 61_000, last: 61_003 } });
    const established = sourcePort(from(1, 'tcp SYN', 61_000));
    answer(established);
    from(1, 'tcp ACK', 61_000);
    // Ports that are taken by others: 61,000 is the first client's, the rest is half-open.
    const flood = Array.from({ length: 100 }, (_, n) => from(2, 'tcp SYN', 40_000 + n));
    const others = Array.from({ length: 50 }, (_, n) => from(3 + n));
    expect([...flood, ...others]).not.toContain('dropped');
    expect([...flood, ...others].map(sourcePort)).not.toContain(established);
    expect(drive.reasons()).toEqual({ HALF_OPEN_EVICTED: expect.any(Number) });
    expect(answer(sourcePort(others.at(-1)!))).toBe(answerTo(52));
    expect(sourcePort(from(1, 'tcp ACK', 61_000))).toBe(established);
  });

  describe('datagrams', () => {
    const ask = (n: number): string => from(n, 'udp payload=1');
    const answered = (port: number): string =>
      drive.through(`${pod(5)} > ${node(port)} udp payload=2`);
    const toClient = (n: number): string => `${vip()} > ${at.port(other(n), 40_000)} udp payload=2`;
    beforeEach(() => {
      publish(drive, family, { ...masquerade, protocol: 'UDP' });
      drive.putSettings({ snatPorts: { first: 61_000, last: 61_001 } });
    });

    test('a port whose backend may still answer is nobody else’s', () => {
      const asked = [1, 2, 3, 4, 5, 6].map(ask);
      const ports = asked.filter((line) => line !== 'dropped').map(sourcePort);
      expect(ports[0]).toBe(40_000);
      expect(new Set(ports).size).toBe(ports.length);
      expect(drive.reasons()).toEqual({ DROPPED_NO_PORT: 6 - ports.length });
      for (const [n, line] of asked.entries()) {
        if (line !== 'dropped') expect(answered(sourcePort(line))).toBe(toClient(n + 1));
      }
    });

    test('that of a question that has had its answer is the last resort', () => {
      const ports = [1, 2, 3].map((n) => sourcePort(ask(n)));
      answered(ports[1]!);
      expect(sourcePort(ask(4))).toBe(ports[1]);
      expect(answered(ports[1]!)).toBe(toClient(4));
    });

    test.each([
      ['asked, answered and asked again', ['ask', 'answer', 'ask']],
      ['asked twice and answered once', ['ask', 'ask', 'answer']],
    ])('that of a client that has %s is not, until that is answered', (_, before) => {
      const ports = [1, 2, 3].map((n) => sourcePort(ask(n)));
      for (const what of before.slice(1)) what === 'ask' ? ask(2) : answered(ports[1]!);
      expect(ask(4)).toBe('dropped');
      expect(answered(ports[1]!)).toBe(toClient(2));
      expect(sourcePort(ask(4))).toBe(ports[1]);
      expect(answered(ports[1]!)).toBe(toClient(4));
    });

    test.each([
      ['asked', ['ask']],
      ['asked, answered and asked again', ['ask', 'answer', 'ask']],
    ])('that of a client that has %s is kept when a flood takes its place', (_, before) => {
      drive.putSettings({});
      for (const what of before) what === 'ask' ? ask(1) : answered(40_000);
      flood('udp payload=1');
      expect(drive.conns(family).filter(({ client }) => client.address === other(1))).toEqual([]);
      expect(sourcePort(ask(200))).not.toBe(40_000);
      expect(answered(40_000)).toBe(`${pod(5)} > ${node(40_000)} udp payload=2`);
    });

    test('so is that of one that nobody has answered for as long as conntrack waits', () => {
      const ports = [1, 2, 3].map((n) => sourcePort(ask(n)));
      const { udpNew } = SETTINGS.timeoutSeconds;
      drive.age(udpNew + 1, family, ({ client }) => client.address === other(2));
      expect(sourcePort(ask(4))).toBe(ports[1]);
      expect(answered(ports[1]!)).toBe(toClient(4));
    });
  });

  test('ports on both sides of those of the node’s own connections are chosen, and no NodePort', () => {
    publish(drive, family, { ...masquerade, protocol: 'UDP' });
    drive.putNodeAddress(at.node, 'node');
    drive.putFrontend({ family, port: 1026, protocol: 'UDP', rules: {} });
    drive.putNodePorts(1);
    drive.putSettings({
      snatPorts: { first: 1024, last: 65_535 },
      localPorts: { first: 1028, last: 65_533 },
    });
    const ports = Array.from({ length: 5 }, (_, n) => sourcePort(from(n + 1, 'udp payload=1')));
    expect(ports.toSorted((one, another) => one - another)).toEqual([
      ...[1024, 1025, 1027, 65_534, 65_535],
    ]);
  });

  test('a port that the node keeps is given to no flow', () => {
    publish(drive, family, masquerade);
    drive.putSettings({ snatPorts: { first: 61_000, last: 61_001 } });
    drive.keepPorts(40_000, 61_000);
    expect(sourcePort(from(1))).toBe(61_001);
    drive.keepPorts();
    expect(sourcePort(from(2))).toBe(40_000);
    expect(sourcePort(from(3))).toBe(61_000);
  });

  test('ports of the node’s own connections are given when no other is free', () => {
    publish(drive, family, masquerade);
    drive.putSettings({
      snatPorts: { first: 61_000, last: 61_001 },
      localPorts: { first: 61_001, last: 61_001 },
    });
    const ports = [1, 2].map((n) => sourcePort(from(n, 'tcp SYN', 61_001)));
    expect(ports).toEqual([61_000, 61_001]);
  });

  describe('a connection of the node from a port that a flow has', () => {
    const own = (word: string, port = 40_000): string =>
      drive.egress(`${node(port)} > ${pod(5)} ${word}`);
    const answerTo1 = `${vip()} > ${at.port(other(1), 40_000)} tcp SYN ACK`;
    beforeEach(() => publish(drive, family, masquerade));

    test('gets another one, and both get their answers', () => {
      from(1, 'tcp SYN seq=1');
      const port = sourcePort(own('tcp SYN seq=2'));
      expect(port).not.toBe(40_000);
      expect(answer(port)).toBe(`${pod(5)} > ${node(40_000)} tcp SYN ACK`);
      expect(answer(40_000)).toBe(answerTo1);
      expect(sourcePort(own('tcp ACK'))).toBe(port);
      expect(sourcePort(own('tcp SYN seq=2')), 'sent again').toBe(port);
      expect(sourcePort(from(1, 'tcp ACK'))).toBe(40_000);
    });

    test('ends as others do', () => {
      from(1, 'tcp SYN seq=1');
      answer(sourcePort(own('tcp SYN seq=2')), 'SYN ACK ack=3');
      own('tcp ACK');
      own('tcp FIN ACK');
      expect(drive.conns(family).find(({ isOwn }) => isOwn)?.state).toBe('fin-client');
    });

    test('keeps it when the flow has ended', () => {
      from(1, 'tcp SYN seq=1');
      answer(40_000, 'RST ACK ack=2');
      expect(sourcePort(own('tcp SYN seq=2'))).toBe(40_000);
      expect(answer(40_000)).toBe(`${pod(5)} > ${node(40_000)} tcp SYN ACK`);
    });

    test('that no socket has is noted: netfilter masquerades it, and no flow gets its port', () => {
      from(1, 'tcp SYN seq=1', 41_000);
      expect(sourcePort(own('tcp SYN seq=2'))).toBe(40_000);
      expect(sourcePort(from(2))).not.toBe(40_000);
      expect(answer(40_000)).toBe(`${pod(5)} > ${node(40_000)} tcp SYN ACK`);
    });

    test('that is noted keeps its port, if no other is free either', () => {
      drive.putSettings({ snatPorts: { first: 61_000, last: 61_000 } });
      from(1, 'tcp SYN seq=1');
      expect(sourcePort(own('tcp SYN seq=2', 61_000))).toBe(61_000);
      drive.age(5, family, ({ backendId }) => backendId === 0);
      expect(sourcePort(from(2)), 'that of the first').toBe(40_000);
      expect(answer(61_000)).toBe(`${pod(5)} > ${node(61_000)} tcp SYN ACK`);
    });

    test('that is noted, and answered, keeps its port in a flood', () => {
      from(1, 'tcp SYN seq=1', 41_000);
      own('tcp SYN seq=2');
      const toNode = `${pod(5)} > ${node(40_000)} tcp SYN ACK`;
      expect(answer(40_000)).toBe(toNode);
      flood('tcp SYN');
      expect(sourcePort(from(1))).not.toBe(40_000);
      expect(answer(40_000)).toBe(toNode);
    });

    test('the SYN of the flow itself, which leaves by a second device, is left', () => {
      from(1, 'tcp SYN seq=1');
      expect(sourcePort(own('tcp SYN seq=1'))).toBe(40_000);
    });
  });

  test('of half-open flows the oldest gives up its port', () => {
    publish(drive, family, masquerade);
    drive.putSettings({ snatPorts: { first: 61_000, last: 61_000 } });
    from(1);
    from(2);
    drive.age(5, family, ({ client }) => client.address === other(2));
    expect(sourcePort(from(3)), 'that of the second').toBe(61_000);
    expect(answer(40_000)).toBe(answerTo(1));
    expect(drive.reasons()).toEqual({ HALF_OPEN_EVICTED: 1 });
  });

  /** Establishes the flow of a client, which has this SNAT port, and ends it. */
  const ENDS = {
    'FINs of both': ['client FIN ACK', 'backend FIN ACK'],
    'FINs of both, the backend first': ['backend FIN ACK', 'client FIN ACK'],
    'a RST of the client': ['client RST'],
    'a RST of the backend': ['backend RST ACK'],
  } as const;
  function play(n: number, packets: readonly string[]): number {
    const port = sourcePort(from(n));
    for (const packet of ['backend SYN ACK', 'client ACK', ...packets]) {
      const [side = '', ...flags] = packet.split(' ');
      if (side === 'client') from(n, `tcp ${flags.join(' ')}`);
      else drive.through(`${pod(5)} > ${node(port)} tcp ${flags.join(' ')}`);
    }
    return port;
  }
  const answer = (port: number, flags = 'SYN ACK'): string =>
    drive.through(`${pod(5)} > ${node(port)} tcp ${flags}`);
  const answerTo = (n: number, flags = 'SYN ACK'): string =>
    `${vip()} > ${at.port(other(n), 40_000)} tcp ${flags}`;

  test.each(Object.entries(ENDS))('after %s, SYN-ACK is of the node’s own connection', (_, end) => {
    publish(drive, family, masquerade);
    expect(play(1, end.slice(0, -1))).toBe(40_000);
    if (end.length > 1) expect(answer(40_000)).toBe(answerTo(1));
    for (const last of end.slice(-1)) {
      const [side, ...flags] = last.split(' ');
      if (side === 'client') from(1, `tcp ${flags.join(' ')}`);
      else answer(40_000, flags.join(' '));
    }
    for (const flags of ['SYN ACK', 'ACK']) {
      expect(answer(40_000, flags)).toBe(`${pod(5)} > ${node(40_000)} tcp ${flags}`);
    }
  });

  test.each(Object.entries(ENDS))('after %s, the client’s next connection has it', (_, end) => {
    publish(drive, family, masquerade);
    play(1, end);
    expect(sourcePort(from(1))).toBe(40_000);
    expect(answer(40_000)).toBe(answerTo(1));
    from(1, 'tcp ACK');
    expect(answer(40_000, 'ACK')).toBe(answerTo(1, 'ACK'));
  });

  test('the late packets of an ended flow still reach the client', () => {
    publish(drive, family, masquerade);
    play(1, ENDS['FINs of both']);
    expect(answer(40_000, 'FIN ACK')).toBe(answerTo(1, 'FIN ACK'));
  });

  test.each(Object.entries(ENDS))('after %s, its port is another’s if none is free', (_, end) => {
    publish(drive, family, masquerade);
    drive.putSettings({ snatPorts: { first: 61_000, last: 61_000 } });
    expect([sourcePort(from(1)), play(2, end), sourcePort(from(3))]).toEqual([
      ...[40_000, 61_000, 61_000],
    ]);
    expect(answer(61_000)).toBe(answerTo(3));
    const late = from(2, 'tcp ACK');
    expect(late === 'dropped' || sourcePort(late) !== 61_000, late).toBe(true);
    from(2);
    expect(answer(61_000), 'after the end of the former flow').toBe(answerTo(3));
  });

  test('a RST to the client that had a port before ends nothing of the flow that has it now', () => {
    publish(drive, family, masquerade);
    drive.putSettings({ snatPorts: { first: 61_000, last: 61_000 } });
    from(1);
    play(2, ENDS['FINs of both']);
    expect(sourcePort(from(3))).toBe(61_000);
    drive.egress(`${pod(5)} > ${at.port(other(2), 40_000)} tcp RST ACK`);
    expect(answer(61_000)).toBe(answerTo(3));
  });

  test('a backend that has the former connection in TIME-WAIT: the client is told, and ends it', () => {
    publish(drive, family, masquerade);
    drive.putSettings({ snatPorts: { first: 61_000, last: 61_000 } });
    from(1);
    play(2, ENDS['FINs of both']);
    expect(sourcePort(from(3))).toBe(61_000);
    expect(answer(61_000, 'ACK ack=77')).toBe(answerTo(3, 'ACK ack=77'));
    expect(from(3, 'tcp RST seq=77')).toBe(`${node(61_000)} > ${pod(5)} tcp RST seq=77`);
    expect(sourcePort(from(3)), 'the SYN again').toBe(61_000);
    expect(answer(61_000)).toBe(answerTo(3));
    expect(from(3, 'tcp ACK')).toBe(`${node(61_000)} > ${pod(5)} tcp ACK`);
    expect(drive.reasons()).toEqual({});
  });

  test('the SYN that follows has the same port, though others are free by now', () => {
    publish(drive, family, masquerade);
    drive.putSettings({ localPorts: { first: 40_000, last: 40_000 } });
    const port = sourcePort(from(1));
    expect(port).not.toBe(40_000);
    expect(answer(port, 'ACK ack=77')).toBe(answerTo(1, 'ACK ack=77'));
    from(1, 'tcp RST seq=77');
    drive.putSettings({});
    expect(sourcePort(from(1))).toBe(port);
    expect(answer(port)).toBe(answerTo(1));
  });

  test.each([true, false])(
    'so it is when the client begins again from its port, masqueraded: %s',
    (isMasqueraded) => {
      publish(drive, family, { rule: { masquerade: isMasqueraded } });
      const client = at.port(other(1), 40_000);
      const seen = isMasqueraded ? node(40_000) : client;
      const back = (flags: string): string => drive.through(`${pod(5)} > ${seen} tcp ${flags}`);
      for (const packet of ['client SYN', 'backend SYN ACK', 'client ACK']) {
        const [side, ...flags] = packet.split(' ');
        if (side === 'client') from(1, `tcp ${flags.join(' ')}`);
        else back(flags.join(' '));
      }
      back('FIN ACK');
      from(1, 'tcp FIN ACK');
      from(1, 'tcp SYN seq=900');
      expect(back('ACK ack=77')).toBe(`${vip()} > ${client} tcp ACK ack=77`);
      expect(from(1, 'tcp RST seq=77')).toBe(`${seen} > ${pod(5)} tcp RST seq=77`);
      from(1, 'tcp SYN seq=900');
      expect(back('SYN ACK')).toBe(`${vip()} > ${client} tcp SYN ACK`);
      expect(drive.reasons()).toEqual({});
    },
  );

  test('a port of a flow that has not ended is nobody else’s', () => {
    publish(drive, family, masquerade);
    drive.putSettings({ snatPorts: { first: 61_000, last: 61_000 } });
    play(1, []);
    play(2, ['client FIN ACK', 'backend ACK']);
    expect(from(3)).toBe('dropped');
  });

  test('a free port comes before that of an ended flow', () => {
    publish(drive, family, masquerade);
    play(1, ENDS['FINs of both']);
    expect(sourcePort(from(2))).toBeGreaterThanOrEqual(61_000);
  });

  test('a client that looks like the SNAT address keeps its flow', () => {
    publish(drive, family);
    expect(drive.ingress(`${node(40_000)} > ${vip()} tcp SYN`)).toBe(
      `${node(40_000)} > ${pod(5)} tcp SYN`,
    );
    publish(drive, family, masquerade);
    expect(sourcePort(from(1))).not.toBe(40_000);
  });

  const loopback = family === 'IPv4' ? '127.0.0.1' : '::1';

  test('a port of a UDP socket of the node is not used', async () => {
    const socket = createSocket(family === 'IPv4' ? 'udp4' : 'udp6');
    socket.bind(0, loopback);
    await once(socket, 'listening');
    const { port } = socket.address();
    publish(drive, family, { ...masquerade, protocol: 'UDP' });
    drive.putSettings({ nodeAddress: { [family]: loopback } });
    expect(sourcePort(from(1, 'udp payload=1', port))).not.toBe(port);
    socket.close();
    await once(socket, 'close');
    expect(sourcePort(from(2, 'udp payload=1', port))).toBe(port);
  });

  test('neither is that of a connection of the node to the backend, nor a listener’s', async () => {
    const server = createServer((socket) => socket.resume());
    server.listen(0, loopback);
    await once(server, 'listening');
    const { port: listening } = server.address() as AddressInfo;
    const socket = connect(listening, loopback);
    await once(socket, 'connect');
    const { localPort = 0 } = socket;
    publish(drive, family, {
      ...masquerade,
      backends: [{ address: loopback }],
      backendPort: listening,
    });
    drive.putSettings({ nodeAddress: { [family]: loopback } });
    expect(sourcePort(from(1, 'tcp SYN', localPort))).not.toBe(localPort);
    expect(sourcePort(from(2, 'tcp SYN', listening))).not.toBe(listening);
    socket.destroy();
    server.close();
  });
});
