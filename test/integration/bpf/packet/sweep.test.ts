// SPDX-License-Identifier: Apache-2.0
// The sweep: what has expired goes, everything else stays.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Sweep } from '../../../../src/engines/bpf/flows/sweep/sweep.ts';
import { readTraffic } from '../../../../src/engines/bpf/flows/traffic/ended.ts';
import { arrayTable } from '../../../../src/engines/bpf/kernel/maps/kernel.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, publish } from './support/stage.ts';
import { kernelSweep } from './support/sweeps.ts';

const drive = sharedDrive();
let sweep: Sweep;

const round = () => {
  while (!sweep.step());
  return sweep.total();
};

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  beforeEach(() => {
    sweep = kernelSweep(drive);
  });
  const { client, vip, node, pod } = names(family);
  const masquerade = { rule: { masquerade: true } };
  const send = (word: string, port = 40_000) => drive.through(`${client(port)} > ${vip()} ${word}`);
  const answer = (word: string, port = 40_000) =>
    drive.through(`${pod(5)} > ${node(port)} ${word}`);
  const count = (): number => drive.conns(family).length;
  const age = (seconds: number): void => drive.age(seconds, family);

  function establish(): void {
    publish(drive, family, masquerade);
    send('tcp SYN');
    answer('tcp SYN ACK');
    send('tcp ACK');
  }

  test.each([
    ['one question', 31, 1],
    ['several', 181, 3],
  ] as const)('nobody has swept %s of UDP: the port is the node’s', (_, seconds, n) => {
    publish(drive, family, { ...masquerade, protocol: 'UDP' });
    const datagrams = Array.from({ length: n }, () => {
      send('udp payload=1');
      return answer('udp payload=2');
    });
    const toClient = `${vip()} > ${client(40_000)} udp payload=2`;
    expect(datagrams).toEqual(Array(n).fill(toClient));
    age(seconds);
    const toNode = `${pod(5)} > ${node(40_000)} udp payload=2`;
    expect([answer('udp payload=2'), answer('udp payload=2')]).toEqual([toNode, toNode]);
    expect(count()).toBe(0);
    expect(send('udp payload=1')).toBe(`${node(40_000)} > ${pod(5)} udp payload=1`);
    expect(answer('udp payload=2')).toBe(toClient);
  });

  test.each([
    ['TCP half-open', 20, 'TCP', () => send('tcp SYN')],
    ['UDP half-open', 30, 'UDP', () => send('udp payload=1')],
    ['TCP established', 86_400, 'TCP', establish],
    [
      'UDP established',
      120,
      'UDP',
      () => {
        for (let n = 0; n < 3; n++) {
          send('udp payload=1');
          answer('udp payload=1');
        }
      },
    ],
    [
      'TCP half-closed',
      3600,
      'TCP',
      () => {
        establish();
        answer('tcp FIN ACK');
      },
    ],
    [
      'TCP closed by both, which keeps its SNAT port',
      120,
      'TCP',
      () => {
        establish();
        answer('tcp FIN ACK');
        send('tcp FIN ACK');
      },
    ],
    [
      'TCP reset by the backend',
      10,
      'TCP',
      () => {
        establish();
        answer('tcp RST');
      },
    ],
  ] as const)('%s: it goes after its time, not before', (_, seconds, protocol, make) => {
    publish(drive, family, { protocol, ...masquerade });
    make();
    age(seconds - 5);
    round();
    expect(count()).toBe(1);
    age(6);
    expect(round()).toMatchObject({ expired: 1 });
    expect(count()).toBe(0);
  });

  describe.each([false, true])('a reset, and then silence, masqueraded: %s', (isMasqueraded) => {
    const toClient = isMasqueraded ? node(40_000) : client();
    const reply = (word: string) => drive.through(`${pod(5)} > ${toClient} ${word}`);
    const CLIENT_SEQ = 4_294_000_000;
    const BACKEND_SEQ = 70_000_000;
    const FORGED_SEQ = 2_000_000_000;
    /** net.ipv4.tcp_rmem's, from Linux 6.16 on. */
    const LARGEST_WINDOW = 32 * 1024 * 1024;

    beforeEach(() => {
      publish(drive, family, { rule: { masquerade: isMasqueraded } });
      send(`tcp SYN seq=${CLIENT_SEQ}`);
      reply(`tcp SYN ACK seq=${BACKEND_SEQ} ack=${CLIENT_SEQ + 1}`);
      send(`tcp ACK seq=${CLIENT_SEQ + 1} ack=${BACKEND_SEQ + 1}`);
    });

    test.each([
      ['of the client', [() => send(`tcp RST seq=${FORGED_SEQ}`)]],
      ['of the backend', [() => reply(`tcp RST seq=${FORGED_SEQ}`)]],
      ['of the backend, acknowledging', [() => reply(`tcp RST ACK seq=${FORGED_SEQ} ack=1`)]],
      [
        'that a forged packet of the client precedes',
        [
          () => send(`tcp ACK seq=${FORGED_SEQ} ack=${FORGED_SEQ}`),
          () => send(`tcp RST seq=${FORGED_SEQ}`),
          () => reply(`tcp RST seq=${FORGED_SEQ}`),
        ],
      ],
      ['that is a FIN of the client', [() => send(`tcp FIN ACK seq=${FORGED_SEQ} ack=1`)]],
      ['that is a FIN of the backend', [() => reply(`tcp FIN ACK seq=${FORGED_SEQ} ack=1`)]],
    ])('a forged one %s leaves the flow as it is', (_, packets) => {
      for (const packet of packets) packet();
      age(7200);
      expect(round()).toMatchObject({ expired: 0 });
      expect(drive.phases(family)).toEqual(['established']);
      expect(send(`tcp ACK seq=${CLIENT_SEQ + 1} ack=${BACKEND_SEQ + 1}`)).toContain(pod(5));
    });

    test.each([
      ['of the client', () => send(`tcp RST seq=${CLIENT_SEQ + 1}`)],
      [
        'of the client, a window later',
        () => send(`tcp RST seq=${CLIENT_SEQ + 4_000_000 - 2 ** 32}`),
      ],
      ['of the backend', () => reply(`tcp RST seq=${BACKEND_SEQ + 1}`)],
      ['of the backend, a window later', () => reply(`tcp RST ACK seq=${BACKEND_SEQ + 4_000_000}`)],
      [
        'of the client, the largest window later',
        () => send(`tcp RST seq=${CLIENT_SEQ + LARGEST_WINDOW - 2 ** 32}`),
      ],
      [
        'of the backend, the largest window later',
        () => reply(`tcp RST seq=${BACKEND_SEQ + LARGEST_WINDOW}`),
      ],
    ])('one %s ends it', (_, packet) => {
      packet();
      age(11);
      expect(round()).toMatchObject({ expired: 1 });
      expect(count()).toBe(0);
    });

    test('a gap in a large window is filled: what follows is still the backend’s', () => {
      const far = BACKEND_SEQ + 100_000_000;
      send(`tcp ACK seq=${CLIENT_SEQ + 1} ack=${far}`);
      reply(`tcp RST seq=${far + 1}`);
      age(11);
      expect(round()).toMatchObject({ expired: 1 });
    });

    test('a long transfer is followed', () => {
      for (let sent = 1; sent < 2 ** 32; sent += 5_000_000) {
        const [seq, ack] = [CLIENT_SEQ + sent, BACKEND_SEQ + sent].map((n) => n % 2 ** 32);
        send(`tcp ACK seq=${seq} ack=${ack}`);
      }
      send(`tcp RST seq=${(CLIENT_SEQ + 2 ** 32 - 1) % 2 ** 32}`);
      age(11);
      expect(round()).toMatchObject({ expired: 1 });
    });
  });

  test('the SNAT port of an ended connection is nobody else’s for two minutes', () => {
    establish();
    answer('tcp FIN ACK');
    send('tcp FIN ACK');
    age(100);
    expect(round()).toMatchObject({ expired: 0 });
    const other = names(family).client(40_000).replace('9:', '8:').replace('9]', '8]');
    expect(drive.through(`${other} > ${vip()} tcp SYN`)).not.toContain(node(40_000));
    expect(answer('tcp SYN ACK'), 'the node’s own').toBe(`${pod(5)} > ${node(40_000)} tcp SYN ACK`);
  });

  test('after that it is', () => {
    establish();
    answer('tcp FIN ACK');
    send('tcp FIN ACK');
    age(121);
    expect(round()).toMatchObject({ expired: 1 });
    expect(answer('tcp ACK'), 'nobody’s').toBe(`${pod(5)} > ${node(40_000)} tcp ACK`);
    const other = names(family).client(40_000).replace('9:', '8:').replace('9]', '8]');
    expect(drive.through(`${other} > ${vip()} tcp SYN`)).toContain(node(40_000));
  });

  test('it is the client’s own again before', () => {
    establish();
    answer('tcp FIN ACK');
    send('tcp FIN ACK');
    age(11);
    round();
    establish();
    expect(answer('tcp ACK')).toBe(`${vip()} > ${client()} tcp ACK`);
    expect(drive.confirmed(family)).toHaveLength(1);
  });

  test('packets of the backend alone keep a connection', () => {
    establish();
    age(80_000);
    answer('tcp ACK');
    age(80_000);
    expect(round()).toMatchObject({ expired: 0 });
  });

  test('a packet of the next second, seen on another CPU, keeps it too', () => {
    publish(drive, family, masquerade);
    send('tcp SYN');
    age(-1);
    expect(round()).toMatchObject({ expired: 0 });
    expect(send('tcp SYN')).toContain(pod(5));
  });

  test('packets and bytes of a flow that ends are its frontend’s', () => {
    establish();
    answer('tcp ACK payload=100');
    age(90_000);
    round();
    const header = family === 'IPv4' ? 40 : 60;
    expect(readTraffic(arrayTable(drive.object.map('fl_traffic')), 1)).toEqual({
      toBackend: { packets: 2, bytes: 2 * header },
      toClient: { packets: 2, bytes: 2 * header + 100 },
    });
  });

  test('an idle connection that lives stays', () => {
    establish();
    age(1000);
    expect(round()).toMatchObject({ expired: 0 });
    expect(count()).toBe(1);
  });

  test('each connection is looked at once in a round', () => {
    publish(drive, family, { protocol: 'UDP' });
    for (let n = 0; n < 50; n++) send('udp payload=1', 41_000 + n);
    expect(sweep.steps).toBeGreaterThan(2);
    expect(round()).toMatchObject({ entries: 50, expired: 0 });
  });
});
