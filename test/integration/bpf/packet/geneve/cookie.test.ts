// SPDX-License-Identifier: Apache-2.0
// Cookies of direct return: what has none that the cluster's secrets make is dropped, whatever its source.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Cookies } from '../../../../../src/engines/bpf/direct-return/direct-layout.ts';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { buildFrame, withDf } from '../../../../support/packets/build.ts';
import { cookieOf, sipHash } from '../../../../support/packets/cookie.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { readWrapped, wrap } from '../../../../support/packets/geneve.ts';
import {
  NODES,
  putBackendNode,
  putCookies,
  putLocalBackend,
  putPeer,
  takeGeneve,
  withRoutes,
} from '../support/nodes.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';

const drive = sharedDrive();
const { setMtu } = withRoutes(drive);
const [LEFT, DROPPED, SENT] = [0xffff_ffff, 2, 7];
const GIVEN_BACK = 1;

const keyOf = (first: number) => Uint8Array.from({ length: 16 }, (_, at) => first + at);
/** ZERO is what is in the place of a second key that is not there. */
const KEYS = { A: keyOf(0), B: keyOf(100), C: keyOf(200), ZERO: new Uint8Array(16) } as const;
type Name = keyof typeof KEYS;

/** As a file has them: the first one is sent. */
function secrets(...lines: readonly (Name | 'none')[]): void {
  const keys = lines.flatMap((line) => (line === 'none' ? [] : [KEYS[line]]));
  const cookies: Cookies = { keys, isSent: lines[0] !== 'none', takesNone: lines.includes('none') };
  putCookies(drive, cookies);
}

test('the hash of these tests is SipHash-2-4: the vector of its authors', () => {
  const text = Uint8Array.from({ length: 15 }, (_, at) => at);
  expect(sipHash(KEYS.A, text)).toBe(0xa129ca6149be45e5n);
});

describe.each(FAMILIES.flatMap((family) => FAMILIES.map((outer) => [family, outer] as const)))(
  '%s between nodes of %s',
  (family, outer) => {
    const { client, vip, pod } = names(family);
    const at = PLACES[family];
    const { own, peer } = NODES[outer];
    const request = `${client()} > ${vip()}`;
    const backend = { address: at.pod(5), port: 8080 };
    const rule = { masquerade: true, returnsDirectly: true };
    const overhead = (outer === 'IPv4' ? 20 : 40) + 8 + (family === 'IPv4' ? 20 : 32);
    const optionAt = 14 + (outer === 'IPv4' ? 20 : 40) + 8 + 8;

    const cookieBy = (name: Name, { node = peer as string, port = 40_000, protocol = 6 } = {}) =>
      cookieOf({
        ...{ key: KEYS[name], node, source: at.client, destination: at.vip, protocol },
        ports: [port, 80],
      });

    beforeEach(() => {
      putPeer(drive, peer);
      takeGeneve(drive);
      setMtu(1500);
    });

    describe('at the node that chose the backend', () => {
      beforeEach(() => {
        publish(drive, family, { rule });
        putBackendNode(drive, 1, peer);
      });
      const run = (frame: Uint8Array) => drive.run('fl_ingress', frame);
      const cookieSent = (line = `${request} tcp SYN`): string => {
        const { action, frame } = run(buildFrame(line));
        expect(action).toBe(SENT);
        const { cookie, inner, backend: named, option } = readWrapped(frame);
        expect([inner, named]).toEqual([`${line} ttl=63`, pod(5)]);
        const words = (family === 'IPv4' ? 2 : 5) + cookie.length / 8;
        expect(option).toBe(`ff46810${words}0100`);
        return cookie;
      };
      const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

      test('without a secret there is none, nor as long as one is only coming', () => {
        expect(cookieSent()).toBe('');
        secrets('none', 'A');
        expect(cookieSent(`${request} tcp ACK payload=9`)).toBe('');
      });

      test('it is of the first secret, and follows a change at once', () => {
        secrets('A', 'none');
        expect(cookieSent()).toBe(hex(cookieBy('A', { node: own })));
        secrets('A');
        expect(cookieSent(`${request} tcp ACK payload=9`)).toBe(hex(cookieBy('A', { node: own })));
        secrets('B', 'A');
        expect(cookieSent(`${request} tcp ACK payload=9`)).toBe(hex(cookieBy('B', { node: own })));
      });

      test('another connection has another one', () => {
        secrets('A');
        expect(cookieSent(`${client(40_001)} > ${vip()} tcp SYN`)).toBe(
          hex(cookieBy('A', { node: own, port: 40_001 })),
        );
      });

      test.each(['A', 'none'] as const)('it takes room: with %s', (first) => {
        secrets(first, 'B');
        const size = overhead + (first === 'none' ? 0 : 8);
        run(buildFrame(`${request} tcp SYN`));
        const header = family === 'IPv4' ? 40 : 60;
        const packet = (length: number): Uint8Array => {
          const frame = buildFrame(`${request} tcp ACK payload=${length - header}`);
          return family === 'IPv4' ? withDf(frame) : frame;
        };
        const { frame } = run(packet(1500 - size));
        expect(frame.length - 14).toBe(1500);
        expect(readWrapped(frame).inner).toContain('tcp ACK');
        run(packet(1500 - size + 1));
        expect(drive.reasons()).toEqual({ DIRECT_TOO_BIG: 1 });
      });

      const givenBack = (cookie: Uint8Array | undefined): number => {
        const frame = wrap({ from: peer, to: own, backend, inner: `${request} tcp SYN`, cookie });
        frame[optionAt + 5] = GIVEN_BACK;
        return run(frame).action;
      };

      test.each([
        ['A', 'B'],
        ['B', 'A'],
      ] as const)(
        'what is given back has the cookie that this node gave it: %s, %s',
        (...lines) => {
          secrets(...lines);
          cookieSent();
          expect(givenBack(undefined)).toBe(DROPPED);
          expect(givenBack(cookieBy('A'))).toBe(DROPPED);
          expect(drive.reasons()).toEqual({ GENEVE_NO_COOKIE: 2 });
          expect(drive.phases(family)).toEqual(['new']);
          expect(givenBack(cookieBy('A', { node: own }))).not.toBe(DROPPED);
          expect(drive.reasons()).toMatchObject({ DIRECT_GIVEN_BACK: 1 });
        },
      );
    });

    describe('at the node of the backend', () => {
      beforeEach(() => {
        publish(drive, family, { rule, backends: [{ isLocal: true }] });
        putLocalBackend(drive, { id: 1, ...backend });
      });
      const receive = (cookie: Uint8Array | undefined, inner = `${request} tcp SYN`): string => {
        const frame = wrap({ from: peer, to: own, backend, inner, cookie });
        const { action, frame: out } = drive.run('fl_ingress', frame);
        if (action === DROPPED) return 'dropped';
        return action === LEFT ? describeFrame(out) : `action ${action}`;
      };
      const DELIVERED = `${client()} > ${pod(5)} tcp SYN`;
      const taken = (cookies: Readonly<Record<string, Uint8Array | undefined>>): string[] =>
        Object.entries(cookies)
          .filter(([, cookie]) => receive(cookie) === DELIVERED)
          .map(([name]) => name);
      const all = () => ({
        'without one': undefined,
        A: cookieBy('A'),
        B: cookieBy('B'),
        C: cookieBy('C'),
        'of another connection': cookieBy('A', { port: 40_001 }),
        'of another protocol': cookieBy('A', { protocol: 17 }),
        'of another node': cookieBy('A', { node: NODES[outer].stranger }),
        'of no key': cookieBy('ZERO'),
        zero: new Uint8Array(8),
      });

      test('without a secret all are taken: other nodes may have one already', () => {
        expect(taken(all())).toEqual(Object.keys(all()));
      });

      test.each([
        { lines: ['A'], wanted: ['A'] },
        { lines: ['B', 'A'], wanted: ['A', 'B'] },
        { lines: ['B'], wanted: ['B'] },
        { lines: ['none', 'A'], wanted: ['without one', 'A'] },
        { lines: ['B', 'none'], wanted: ['without one', 'B'] },
      ] as const)('with the secrets $lines those of $wanted', ({ lines, wanted }) => {
        secrets(...lines);
        const cookies = all();
        expect(taken(cookies)).toEqual(wanted);
        const dropped = Object.keys(cookies).length - wanted.length;
        expect(drive.reasons()).toEqual({ GENEVE_NO_COOKIE: dropped });
      });

      test('what is dropped leaves nothing behind, also of a flow that exists', () => {
        secrets('A');
        expect(receive(cookieBy('B'))).toBe('dropped');
        expect(drive.halfOpen(family)).toEqual([]);
        expect(receive(cookieBy('A'))).toBe(DELIVERED);
        expect(receive(undefined, `${request} tcp RST`)).toBe('dropped');
        expect(drive.phases(family)).toEqual(['new']);
      });

      test('all fragments of a datagram have the cookie of its ports', () => {
        publish(drive, family, { rule, protocol: 'UDP', backends: [{ isLocal: true }] });
        secrets('A');
        const first = `${request} udp payload=200 frag=0+ take=104 id=5`;
        const later = `${request} udp payload=200 frag=104 take=104 id=5`;
        expect(receive(cookieBy('A', { protocol: 17 }), first)).toContain(`${pod(5)} udp frag=0+`);
        expect(receive(cookieBy('A', { protocol: 17 }), later)).toContain(at.pod(5));
        expect(receive(cookieBy('A', { protocol: 17, port: 1 }), later)).toBe('dropped');
        expect(drive.reasons()).toEqual({ GENEVE_NO_COOKIE: 1 });
      });

      test('half a cookie, and one that the packet ends in', () => {
        secrets('A');
        expect(receive(cookieBy('A').subarray(0, 4))).toBe('dropped');
        const frame = wrap({ from: peer, to: own, backend, inner: new Uint8Array(14) });
        const words = (family === 'IPv4' ? 2 : 5) + 2;
        frame.set(family === 'IPv4' ? [8, 0] : [0x86, 0xdd], optionAt - 6);
        frame[optionAt - 8] = words + 1;
        frame[optionAt + 3] = words;
        // With what may be padding behind it.
        const padded = Uint8Array.of(...frame, ...new Uint8Array(8));
        expect(drive.run('fl_ingress', padded).action).toBe(DROPPED);
        expect(drive.reasons()).toEqual({ GENEVE_MALFORMED: 2 });
      });

      test('what is not here goes back with its cookie', () => {
        secrets('B', 'A');
        const named = { address: at.pod(6), port: 8080 };
        const cookie = cookieBy('A');
        const inner = `${request} tcp SYN ttl=63`;
        const frame = wrap({ from: peer, to: own, backend: named, inner, cookie });
        const { action, frame: out } = drive.run('fl_ingress', frame);
        expect(action).toBe(SENT);
        expect(readWrapped(out)).toMatchObject({
          outer: expect.stringMatching(outer === 'IPv4' ? `^${own} > ${peer}:` : own) as string,
          cookie: Buffer.from(cookie).toString('hex'),
          inner,
        });
      });

      test('clients are told to leave room for one as soon as there is a secret', () => {
        const mss = (): number => {
          const answer = buildFrame(`${pod(5)} > ${client()} tcp SYN ACK doff=6 payload=4`);
          answer.set([2, 4, 1460 >> 8, 1460 & 255], answer.length - 4);
          const { frame } = drive.run('fl_egress', answer);
          return Buffer.from(frame).readUInt16BE(frame.length - 2);
        };
        receive(undefined);
        const before = mss();
        secrets('none', 'A');
        expect(mss()).toBe(before - 8);
      });
    });
  },
);
