// SPDX-License-Identifier: Apache-2.0
// Connections straight to a backend, from a port from which the client has, or has had, a flow to the same backend
// through a Service.
import { describe, expect, test } from 'vitest';
import { sharedDrive } from './support/shared-drive.ts';
import { names, publish } from './support/stage.ts';

const drive = sharedDrive();

const ENDS = {
  'FINs of both': ['client FIN ACK', 'backend FIN ACK'],
  'a RST of the client': ['client RST'],
  'a RST of the backend': ['backend RST ACK'],
} as const;

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const port = (line: string): number => Number(/:(\d+) > /.exec(line)?.[1]);
  const direct = (words: string): string => drive.through(`${client()} > ${pod(5)} ${words}`);
  const back = (words: string, to = client()): string =>
    drive.through(`${pod(5)} > ${to} ${words}`);
  const conns = (): number => drive.conns(family).length;
  const age = (seconds: number): void => drive.age(seconds, family);

  /** A flow through the virtual address, with these packets after it is established. */
  function play(packets: readonly string[], masquerade: boolean): void {
    publish(drive, family, { rule: { masquerade } });
    for (const packet of ['client SYN', 'backend SYN ACK', 'client ACK', ...packets]) {
      const [side, ...flags] = packet.split(' ');
      if (side === 'client') drive.through(`${client()} > ${vip()} tcp ${flags.join(' ')}`);
      else back(`tcp ${flags.join(' ')}`, masquerade ? node(40_000) : client());
    }
  }

  describe.each([false, true])('masqueraded: %s', (masquerade) => {
    test.each(Object.entries(ENDS))('after %s it gives way', (_, end) => {
      play(end, masquerade);
      expect(direct('tcp SYN')).toBe(`${client()} > ${pod(5)} tcp SYN`);
      expect(conns()).toBe(0);
      expect(back('tcp SYN ACK')).toBe(`${pod(5)} > ${client()} tcp SYN ACK`);
      expect(direct('tcp ACK')).toBe(`${client()} > ${pod(5)} tcp ACK`);
      expect(drive.reasons()).toEqual({});
    });

    test('a flow that has expired is deleted', () => {
      publish(drive, family, { rule: { masquerade } });
      drive.through(`${client()} > ${vip()} tcp SYN`);
      age(21);
      expect(direct('tcp SYN seq=5')).toBe(`${client()} > ${pod(5)} tcp SYN seq=5`);
      expect(conns()).toBe(0);
      expect(back('tcp SYN ACK')).toBe(`${pod(5)} > ${client()} tcp SYN ACK`);
    });

    test.each([[[]], [['client FIN ACK']], [['backend FIN ACK']]])(
      'a flow that lives (%j) keeps its port, the connection gets another one',
      (packets) => {
        play(packets, masquerade);
        const syn = direct('tcp SYN seq=5');
        const changed = port(syn);
        expect(syn).toBe(`${client(changed)} > ${pod(5)} tcp SYN seq=5`);
        expect(changed).toBeGreaterThanOrEqual(61_000);
        expect(drive.reasons()).toEqual({ CLIENT_PORT_CHANGED: 1 });
        for (const flags of ['SYN ACK', 'ACK payload=3', 'FIN ACK']) {
          const answer = back(`tcp ${flags}`, client(changed));
          expect(answer).toBe(`${pod(5)} > ${client()} tcp ${flags}`);
          expect(direct('tcp ACK payload=9')).toBe(
            `${client(changed)} > ${pod(5)} tcp ACK payload=9`,
          );
        }
        const through = drive.through(`${client()} > ${vip()} tcp ACK`);
        expect(through).toBe(`${masquerade ? node(40_000) : client()} > ${pod(5)} tcp ACK`);
        const reply = back('tcp ACK', masquerade ? node(40_000) : client());
        expect(reply).toBe(`${vip()} > ${client()} tcp ACK`);
      },
    );
  });

  test('so it gets while the flow is half-open, and when its SYN is sent again', () => {
    publish(drive, family);
    drive.through(`${client()} > ${vip()} tcp SYN seq=4`);
    const changed = port(direct('tcp SYN seq=5'));
    expect(changed).toBeGreaterThanOrEqual(61_000);
    expect(port(direct('tcp SYN seq=5'))).toBe(changed);
    expect(port(drive.through(`${client()} > ${vip()} tcp SYN seq=4`))).toBe(40_000);
  });

  test('a request that comes in by a second device is not taken for one', () => {
    publish(drive, family);
    const translated = `${client()} > ${pod(5)} tcp SYN seq=4`;
    expect(drive.ingress(`${client()} > ${vip()} tcp SYN seq=4`)).toBe(translated);
    expect(drive.ingress(translated)).toBe(translated);
    const again = `${client()} > ${pod(5)} tcp SYN seq=70000`;
    expect(drive.ingress(`${client()} > ${vip()} tcp SYN seq=70000`), 'a new attempt').toBe(again);
    expect(drive.ingress(again)).toBe(again);
    back('tcp SYN ACK');
    drive.ingress(`${client()} > ${vip()} tcp ACK`);
    drive.ingress(`${client()} > ${vip()} tcp SYN seq=8`);
    const late = `${client()} > ${pod(5)} tcp SYN seq=8`;
    expect(drive.ingress(late), 'of an established flow').toBe(late);
    expect(drive.reasons()).toEqual({});
  });

  describe.each([false, true])(
    'beside an older direct connection, masqueraded: %s',
    (masquerade) => {
      const through = (words: string): string => drive.through(`${client()} > ${vip()} ${words}`);
      const atBackend = (line: string): string => line.split(' > ')[0] ?? '';

      test('that goes on, a connection through a Service gets another port when its SYN is sent again', () => {
        publish(drive, family, { rule: { masquerade } });
        direct('tcp SYN seq=1');
        through('tcp SYN seq=70000');
        for (const words of ['tcp ACK payload=4', 'tcp FIN ACK']) {
          const older = `${pod(5)} > ${client()} ${words}`;
          expect(back(words), 'its own').toBe(older);
          expect(direct('tcp ACK')).toBe(`${client()} > ${pod(5)} tcp ACK`);
        }
        const again = through('tcp SYN seq=70000');
        const seen = atBackend(again);
        expect(seen).not.toBe(client());
        expect(again).toBe(`${seen} > ${pod(5)} tcp SYN seq=70000`);
        expect(back('tcp SYN ACK', seen)).toBe(`${vip()} > ${client()} tcp SYN ACK`);
        expect(through('tcp ACK')).toBe(`${seen} > ${pod(5)} tcp ACK`);
        expect(back('tcp ACK payload=4'), 'the older one').toBe(
          `${pod(5)} > ${client()} tcp ACK payload=4`,
        );
      });
    },
  );

  test('what comes from the backend is no such connection', () => {
    play([], false);
    expect(drive.ingress(`${pod(5)} > ${client()} tcp SYN seq=5`)).toBe(
      `${pod(5)} > ${client()} tcp SYN seq=5`,
    );
    expect(conns()).toBe(1);
  });

  describe('UDP', () => {
    const line = `${client()} > ${pod(5)} udp payload=1`;
    const answer = `${pod(5)} > ${client()} udp payload=2`;

    test.each([false, true])(
      'a flow that has expired is deleted (masqueraded: %s)',
      (masquerade) => {
        publish(drive, family, { protocol: 'UDP', rule: { masquerade } });
        drive.through(`${client()} > ${vip()} udp payload=1`);
        age(31);
        expect(direct('udp payload=1')).toBe(line);
        expect(conns()).toBe(0);
        expect(back('udp payload=2')).toBe(answer);
      },
    );

    test('one whose backend never answers lives while the client sends', () => {
      publish(drive, family, { protocol: 'UDP' });
      for (let n = 0; n < 2; n++) {
        expect(drive.through(`${client()} > ${vip()} udp payload=1`)).toBe(line);
        age(31);
      }
      drive.through(`${client()} > ${vip()} udp payload=1`);
      expect(back('udp payload=2')).toBe(`${vip()} > ${client()} udp payload=2`);
    });
  });

  // Within a second, which may end just then.
  test('a datagram that ingress has just sent to the backend is left, once', { retry: 4 }, () => {
    publish(drive, family, { protocol: 'UDP' });
    const inside = drive.ingress(`${client()} > ${vip()} udp payload=1`);
    age(31);
    expect([drive.egress(inside), conns()]).toEqual([inside, 1]);
    // The same straight from the client, after the flow has expired.
    expect([drive.egress(inside), conns()]).toEqual([inside, 0]);
  });
});
