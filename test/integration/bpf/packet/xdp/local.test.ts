// SPDX-License-Identifier: Apache-2.0
// Services whose backends are all on this node: XDP leaves their packets for the rest of the second, without a look for their connections.
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';
import { enterUplinks } from '../support/uplinks.ts';
import { FIRST_WAY, inOneSecond, stayOnOneCpu, wayOf } from '../support/ways.ts';
import { XdpDrive } from '../support/xdp-drive.ts';

enterUplinks('each');
stayOnOneCpu();
const drive = sharedDrive();
const xdp = new XdpDrive(drive.object);
beforeEach(() => xdp.putDevices());
afterAll(() => xdp.close());

/** Of which more than one block of slots has no room. */
const MANY = 16;

describe.each(FAMILIES)('%s', (family) => {
  const { client, vip, pod } = names(family);
  const at = PLACES[family];
  const here = { address: at.pod(7), isLocal: true };
  const elsewhere = { address: at.pod(5), isLocal: false };
  const serve = (...backends: readonly (typeof here)[]): void =>
    publish(drive, family, {
      backends: backends.map((backend, index) => ({ ...backend, port: 8080 + index })),
      rule: { masquerade: true },
    });
  const syn = (port: number, to = vip()): string => wayOf(xdp, `${client(port)} > ${to} tcp SYN`);
  const countOf = (reason: string): number => drive.reasons(true)[reason] ?? 0;

  test('what one client finds out all have for the second', () => {
    inOneSecond(xdp, () => {
      serve(here, here);
      const before = countOf('XDP_NO_TARGET');
      expect(syn(40_000)).toBe('left');
      // Nothing but what is known can tell: this one would be sent.
      serve(elsewhere);
      expect([syn(40_001), syn(40_002)]).toEqual(['left', 'left']);
      expect(countOf('XDP_NO_TARGET') - before).toBe(3);
    });
    xdp.nextSecond();
    expect(syn(40_001)).toBe(FIRST_WAY);
  });

  test.each([
    ['one backend is elsewhere', [here, here, elsewhere]],
    ['there are many', Array.from({ length: MANY }, () => here)],
  ])('each client finds out for itself if %s', (_, backends) => {
    inOneSecond(xdp, () => {
      serve(...backends);
      // Any of them may be chosen.
      for (let port = 40_000; port < 40_020; port += 1) syn(port);
      serve(elsewhere);
      expect(syn(40_100)).toBe(FIRST_WAY);
    });
  });

  test('by frontend', () => {
    inOneSecond(xdp, () => {
      serve(here);
      drive.putBackend({ id: 9, address: at.pod(5), port: 8080 });
      const rules = { host: { set: drive.putSet(8, [9]) } };
      drive.putFrontend({ address: at.vip, port: 81, rules });
      drive.putFrontend({ address: at.vip, port: 80, protocol: 'UDP', rules });
      expect(syn(40_000)).toBe('left');
      expect(syn(40_001, vip(81))).toBe(FIRST_WAY);
      expect(wayOf(xdp, `${client(40_002)} > ${vip()} udp payload=5`)).toBe(FIRST_WAY);
    });
  });

  test('a connection to a former backend elsewhere goes on at tc', () => {
    inOneSecond(xdp, () => {
      drive.forgetConns(family);
      serve(elsewhere);
      expect(syn(40_000)).toBe(FIRST_WAY);
      serve(here, elsewhere);
      serve(here);
      expect(syn(40_001)).toBe('left');
      const line = `${client(40_000)} > ${vip()} tcp SYN`;
      expect(wayOf(xdp, line)).toBe('left');
      expect(drive.ingress(line)).toContain(`> ${pod(5)} tcp SYN`);
    });
  });
});
