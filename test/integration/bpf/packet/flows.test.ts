// SPDX-License-Identifier: Apache-2.0
// The life of a flow: half-open, established, closing; which backend it keeps; what is made again.
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { markOlderConns } from '../../../../src/engines/bpf/rows/marks.ts';
import { editConns } from '../../../support/dataplane/conn-text.ts';
import { PacketDrive } from './support/packet-drive.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';

let drive = sharedDrive();

const masquerade = { rule: { masquerade: true } };

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const request = (word: string): string => drive.through(`${client()} > ${vip()} ${word}`);
  const reply = (word: string): string => drive.through(`${pod(5)} > ${node(40_000)} ${word}`);
  /** Half-open connections, and those that both sides have confirmed. */
  const counts = () => [drive.halfOpen(family).length, drive.confirmed(family).length];
  const phases = () => drive.phases(family);

  /** A masqueraded connection. */
  function establish(): void {
    publish(drive, family, masquerade);
    request('tcp SYN');
    reply('tcp SYN ACK');
    request('tcp ACK');
  }

  test('TCP is established by the ACK after SYN and ACK', () => {
    publish(drive, family, masquerade);
    request('tcp SYN');
    request('tcp SYN');
    expect(counts(), 'half-open').toEqual([1, 0]);
    reply('tcp SYN ACK');
    expect(counts()).toEqual([1, 0]);
    expect(request('tcp ACK payload=9')).toBe(`${node(40_000)} > ${pod(5)} tcp ACK payload=9`);
    expect(counts()).toEqual([0, 1]);
    expect(reply('tcp ACK')).toBe(`${vip()} > ${client()} tcp ACK`);
    expect(request('tcp ACK')).toBe(`${node(40_000)} > ${pod(5)} tcp ACK`);
  });

  test('an ACK without an answer establishes nothing', () => {
    publish(drive, family, masquerade);
    request('tcp SYN');
    request('tcp ACK');
    expect(counts()).toEqual([1, 0]);
  });

  test('UDP is established by two packets each way: a question and its answer are not', () => {
    publish(drive, family, { protocol: 'UDP', ...masquerade });
    request('udp payload=1');
    reply('udp payload=2');
    expect(counts()).toEqual([1, 0]);
    request('udp payload=1');
    reply('udp payload=2');
    expect(counts()).toEqual([1, 0]);
    request('udp payload=1');
    expect(counts()).toEqual([0, 1]);
  });

  test('packets and bytes are counted for each side', () => {
    establish();
    reply('tcp ACK payload=100');
    const header = family === 'IPv4' ? 40 : 60;
    expect(drive.conns(family)).toMatchObject([
      {
        ...{ packets: 2, bytes: 2 * header, replyPackets: 2, replyBytes: 2 * header + 100 },
        ...{ backendId: 1, isMasqueraded: true, frontend: { port: 80 } },
      },
    ]);
  });

  test('a table that is full of confirmed connections: the next one is dropped, and counted', () => {
    const shared = drive;
    drive = new PacketDrive({}, {}, { buckets: 1 });
    onTestFinished(() => {
      drive.close();
      drive = shared;
    });
    publish(drive, family, masquerade);
    const open = (port: number): string => {
      drive.through(`${client(port)} > ${vip()} tcp SYN`);
      drive.through(`${pod(5)} > ${node(port)} tcp SYN ACK`);
      return drive.through(`${client(port)} > ${vip()} tcp ACK`);
    };
    for (let port = 40_000; port < 40_007; port++) {
      expect(open(port)).toBe(`${node(port)} > ${pod(5)} tcp ACK`);
    }
    expect(counts()).toEqual([0, 7]);
    expect(drive.through(`${client(40_007)} > ${vip()} tcp SYN`)).toBe('dropped');
    expect(drive.reasons()).toEqual({ DROPPED_NO_FLOW: 1 });
  });

  test.each([
    ['a FIN of the client', ['request FIN ACK'], 'half-closed'],
    ['a FIN of the backend', ['reply FIN ACK', 'request FIN ACK'], 'closed'],
    ['both', ['request FIN ACK', 'reply FIN ACK', 'request RST'], 'closed'],
    ['a RST of the client', ['request RST'], 'closed'],
    ['a RST of the backend', ['reply RST ACK', 'request RST'], 'closed'],
  ])('%s closes the flow', (_, packets, state) => {
    establish();
    for (const packet of packets) {
      const [side = '', ...flags] = packet.split(' ');
      (side === 'request' ? request : reply)(`tcp ${flags.join(' ')}`);
    }
    expect(phases()).toEqual([state]);
  });

  /** RFC 5961: whoever gets a RST with a wrong sequence number goes on, and anybody can send one. */
  describe.each([false, true])('a RST that both sides ignore, masqueraded: %s', (isMasqueraded) => {
    const toClient = isMasqueraded ? node(40_000) : client();
    const answer = (word: string): string => drive.through(`${pod(5)} > ${toClient} ${word}`);

    test.each([
      ['of the client', () => request('tcp RST')],
      ['of the backend', () => answer('tcp RST')],
      ['of each', () => [request('tcp RST'), answer('tcp RST')]],
    ])('%s', (_, sendReset) => {
      publish(drive, family, { rule: { masquerade: isMasqueraded } });
      request('tcp SYN');
      answer('tcp SYN ACK');
      request('tcp ACK');
      sendReset();
      request('tcp ACK payload=1');
      answer('tcp ACK payload=1');
      request('tcp ACK');
      expect(phases()).toEqual(['established']);
    });
  });

  describe('sequence numbers that are far from those before', () => {
    const before = { seq: 100_000_000, ack: 200_000_000 };
    const jumped = { seq: 1_000_000_000, ack: 2_000_000_000 };
    const words = (seq: number, ack: number) => `seq=${seq} ack=${ack}`;
    beforeEach(() => {
      establish();
      request(`tcp ACK ${words(before.seq, before.ack)}`);
      reply(`tcp ACK ${words(before.ack, before.seq)}`);
    });

    test.each(['FIN', 'RST'])('a %s is believed if the backend is there, too', (end) => {
      request(`tcp ACK ${words(jumped.seq, jumped.ack)}`);
      reply(`tcp ACK ${words(jumped.ack, jumped.seq)}`);
      request(`tcp ${end} ACK ${words(jumped.seq, jumped.ack)}`);
      expect(phases()).toEqual([end === 'FIN' ? 'half-closed' : 'closed']);
    });

    test.each([
      ['acknowledges nothing of it', before.seq, jumped.ack],
      ['is somewhere else', jumped.seq, before.ack],
    ])('and not if the backend %s', (_, ack, seq) => {
      request(`tcp ACK ${words(jumped.seq, jumped.ack)}`);
      reply(`tcp ACK ${words(seq, ack)}`);
      for (const end of ['FIN', 'RST']) {
        request(`tcp ${end} ACK ${words(jumped.seq, jumped.ack)}`);
      }
      expect(phases()).toEqual(['established']);
    });
  });

  describe('a SYN of a connection that one side has ended', () => {
    const FOUR = [{}, {}, {}, {}];
    /** With what the client and what the backend send; both see each other's addresses. */
    function halfClose(side: 'client' | 'backend', port: number, isMasqueraded: boolean) {
      const from = client(port);
      const send = (word: string): string => drive.through(`${from} > ${vip()} ${word}`);
      const [seen = '', , backend = ''] = send('tcp SYN seq=1000').split(' ');
      const answer = (word: string): string => drive.through(`${backend} > ${seen} ${word}`);
      expect(seen).toBe(isMasqueraded ? node(port) : from);
      answer('tcp SYN ACK seq=5000 ack=1001');
      send('tcp ACK seq=1001 ack=5001');
      if (side === 'client') send('tcp FIN ACK seq=1001 ack=5001');
      else answer('tcp FIN ACK seq=5001 ack=1001');
      return { send, answer, backend };
    }
    const sides = (['client', 'backend'] as const).flatMap((side) =>
      [false, true].map((isMasqueraded) => [side, isMasqueraded] as const),
    );

    test.each(sides)('%s, masqueraded: %s: the backend stays', (side, isMasqueraded) => {
      publish(drive, family, { backends: FOUR, rule: { masquerade: isMasqueraded } });
      for (let port = 41_000; port < 41_012; port++) {
        const { send, answer, backend } = halfClose(side, port, isMasqueraded);
        expect(send('tcp SYN seq=3000000000')).toContain(`> ${backend} `);
        expect(send('tcp ACK seq=1002 ack=5002')).toContain(`> ${backend} `);
        expect(answer('tcp ACK seq=5002 ack=1002 payload=9')).toContain(vip());
      }
      expect(new Set(phases())).toEqual(new Set(['half-closed']));
    });

    test.each(sides)('%s, masqueraded: %s: an answer begins another', (side, isMasqueraded) => {
      publish(drive, family, { backends: FOUR, rule: { masquerade: isMasqueraded } });
      const { send, answer, backend } = halfClose(side, 41_000, isMasqueraded);
      send('tcp SYN seq=3000000000');
      expect(phases()).toEqual(['half-closed']);
      answer('tcp SYN ACK seq=2000000000 ack=3000000001');
      expect(send('tcp ACK seq=3000000001 ack=2000000001')).toContain(`> ${backend} `);
      expect(phases()).toEqual(['established']);
      send('tcp FIN ACK seq=3000000001 ack=2000000001');
      expect(phases()).toEqual(['half-closed']);
      answer('tcp FIN ACK seq=2000000001 ack=3000000002');
      send('tcp RST seq=3000000002');
      expect(phases()).toEqual(['closed']);
    });
  });

  describe('the backend of a flow', () => {
    const two = { backends: [{}, {}] };
    const chosen = (word: string): number => {
      const line = drive.ingress(`${client()} > ${vip()} ${word}`);
      return line.includes(pod(5)) ? 1 : line.includes(pod(6)) ? 2 : 0;
    };
    /** Backends of new flows of the same port, each after the last one has ended. */
    const changes = (word: string, end: () => void): Set<number> =>
      new Set(
        Array.from({ length: 24 }, (_, n) => {
          end();
          return chosen(`${word} seq=${n * 1000}`);
        }),
      );

    test('stays while there is one, also if it takes no new connections', () => {
      publish(drive, family, two);
      const first = chosen('tcp SYN');
      const address = PLACES[family].pod(4 + first);
      for (const state of ['ACTIVE', 'TERMINATING'] as const) {
        drive.putBackend({ id: first, address, port: 8080, state });
        for (let n = 0; n < 10; n++) expect(chosen('tcp SYN')).toBe(first);
        expect(chosen('tcp ACK')).toBe(first);
      }
    });

    test('is chosen anew for a first packet if it is gone; the connection keeps it', () => {
      publish(drive, family, two);
      const first = chosen('tcp SYN');
      const address = PLACES[family].pod(4 + first);
      drive.putBackend({ id: first, address, port: 8080, state: 'GONE' });
      expect(chosen('tcp ACK')).toBe(first);
      drive.putFrontend({
        ...{ address: PLACES[family].vip, port: 80 },
        rules: { host: { set: drive.putSet(1, [3 - first]) } },
      });
      expect(chosen('tcp SYN')).toBe(3 - first);
    });

    test('is chosen anew if its id is another backend’s by now', () => {
      publish(drive, family, { protocol: 'UDP' });
      expect(chosen('udp payload=1')).toBe(1);
      drive.putBackend({ id: 1, address: PLACES[family].pod(6), port: 8080, generation: 2 });
      expect(chosen('udp payload=1')).toBe(2);
    });

    test('with reset_gone a connection whose backend is gone is reset', () => {
      drive.putSettings({ resetGone: true });
      publish(drive, family);
      chosen('tcp SYN');
      expect(chosen('tcp ACK')).toBe(1);
      const gone = { id: 1, address: PLACES[family].pod(5), port: 8080, state: 'GONE' } as const;
      drive.putBackend(gone);
      expect(drive.ingress(`${client()} > ${vip()} tcp ACK ack=7`)).toBe(
        `sent back: ${vip()} > ${client()} tcp RST seq=7`,
      );
      expect(drive.halfOpen(family)).toEqual([]);
    });

    test('is chosen anew after the connection was closed, or has expired', () => {
      publish(drive, family, two);
      chosen('tcp SYN');
      expect(changes('tcp SYN', () => chosen('tcp RST'))).toEqual(new Set([1, 2]));
      expect(changes('tcp SYN', () => drive.age(25, family))).toEqual(new Set([1, 2]));
      const young = changes('tcp SYN', () => {});
      expect(young.size).toBe(1);
    });
  });

  test('a connection that was evicted is made again, with the same port', () => {
    publish(drive, family, { protocol: 'UDP', ...masquerade });
    request('udp payload=1');
    drive.forgetConns(family);
    expect(request('udp payload=1')).toBe(`${node(40_000)} > ${pod(5)} udp payload=1`);
    expect(reply('udp payload=1')).toBe(`${vip()} > ${client()} udp payload=1`);
    expect(counts()).toEqual([1, 0]);
  });

  test.each([
    ['the proof', 1, 16],
    ['the backend', 2, 0],
    ['the frontend', 3, 0],
    ['the birth', 5, 0],
    ['the middle port', 9, 0],
    ['the frontend’s port', 10, 16],
    ['the backend’s port', 11, 0],
    ['the frontend’s address', family === 'IPv4' ? 13 : 19, 24],
    ['the backend’s address', family === 'IPv4' ? 14 : 23, 24],
  ] as const)('a record in which %s is another connection’s is not used', (_, word, bit) => {
    establish();
    editConns(drive.object, family, (words) => {
      words[word] = (words[word] ?? 0) ^ (1 << bit);
    });
    expect(request('tcp ACK ack=3')).toContain('RST');
    const line = `${pod(5)} > ${node(40_000)} tcp ACK`;
    expect(drive.ingress(line)).toBe(line);
  });

  test('flows that are older than fl_mark are found after a start', () => {
    establish();
    drive.clearMarks();
    markOlderConns(drive.object.map('fl_mark'), () => true);
    const { values } = drive.object.map('fl_mark').readAll();
    expect(values.at(-64), 'the epoch').toBe(0);
    expect(reply('tcp ACK')).toBe(`${vip()} > ${client()} tcp ACK`);
    expect(request('tcp ACK')).toBe(`${node(40_000)} > ${pod(5)} tcp ACK`);
  });

  test('marks of flows that began since are kept as they are', () => {
    markOlderConns(drive.object.map('fl_mark'), () => drive.conns(family).length > 0);
    const marks = (): number =>
      drive.object
        .map('fl_mark')
        .readAll()
        .values.reduce((sum, mark) => sum + mark, 0);
    expect(marks(), 'no flows').toBe(0);
    establish();
    const few = marks();
    expect(few).toBeLessThan(8);
    markOlderConns(drive.object.map('fl_mark'), () => drive.conns(family).length > 0);
    expect(marks()).toBe(few);
  });

  test('an address without a mark has no flows: it is not looked up', () => {
    establish();
    drive.clearMarks();
    const reply = `${pod(5)} > ${client()} tcp ACK`;
    expect(drive.egress(reply)).toBe(reply);
    expect(drive.ingress(`${client()} > ${vip()} tcp ACK ack=1`)).toContain('RST');
  });

  test.each([
    ['TCP', 'tcp SYN', {}, 4],
    ['TCP', 'tcp SYN', masquerade, 7],
    ['UDP', 'udp payload=5', {}, 5],
  ] as const)(
    'egress looks up requests of %s, %s, %j, if it may have to do with them',
    (protocol, word, rule, marks) => {
      publish(drive, family, { protocol, ...rule });
      request(word);
      const all = drive.object.map('fl_mark').readAll().values;
      expect(all.reduce((sum, mark) => sum + mark, 0)).toBe(marks);
    },
  );

  test('marks are of an address and a port: another port of the backend is not looked up', () => {
    establish();
    drive.clearMarks();
    drive.putBackend({ id: 2, address: PLACES[family].pod(5), port: 9090 });
    const set = drive.putSet(40, [2]);
    drive.putFrontend({ address: PLACES[family].vip, port: 81, rules: { host: { set } } });
    expect(drive.ingress(`${client()} > ${vip(81)} tcp SYN`)).toContain(pod(5, 9090));
    expect(drive.egress(`${pod(5, 9090)} > ${client()} tcp SYN ACK`)).toContain(vip(81));
    const unmarked = `${pod(5)} > ${node(40_000)} tcp ACK`;
    expect(drive.ingress(unmarked)).toBe(unmarked);
  });

  test('session affinity: clients are told apart by their address', () => {
    publish(drive, family, { backends: [{}, {}], affinitySeconds: 100 });
    const backends = Array.from({ length: 20 }, (_, n) =>
      drive.ingress(`${client(41_000 + n)} > ${vip()} tcp SYN`).includes(pod(5)),
    );
    expect(new Set(backends).size).toBe(1);
  });

  test('a packet of a pod gets the rule of pods, by its source or by its device', () => {
    publish(drive, family, { backends: [{}, {}] });
    const rules = {
      host: { set: drive.putSet(1, []) },
      pod: { set: drive.putSet(2, [1]) },
      outside: { set: drive.putSet(3, [2]) },
    };
    drive.putFrontend({ address: PLACES[family].vip, port: 80, rules });
    expect(drive.ingress(`${client(1)} > ${vip()} tcp SYN`)).toContain(pod(6));
    drive.putDevice({}, { isPod: true });
    expect(drive.ingress(`${client(2)} > ${vip()} tcp SYN`)).toContain(pod(5));
    drive.putDevice({});
    drive.putRange(0, `${PLACES[family].client}/${family === 'IPv4' ? 32 : 128}`);
    expect(drive.ingress(`${client(3)} > ${vip()} tcp SYN`)).toContain(pod(5));
  });

  test('source ranges: others are dropped, and flows that began before go on', () => {
    publish(drive, family, { rule: { hasSourceRanges: true } });
    expect(drive.ingress(`${client(1)} > ${vip()} tcp SYN`)).toBe('dropped');
    expect(drive.reasons()).toEqual({ DROPPED_SOURCE_RANGES: 1 });
    drive.putRange(1, `${PLACES[family].client}/${family === 'IPv4' ? 24 : 64}`);
    expect(drive.ingress(`${client(1)} > ${vip()} tcp SYN`)).toContain(pod(5));
  });
});
