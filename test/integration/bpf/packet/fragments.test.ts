// SPDX-License-Identifier: Apache-2.0
// Fragments of a datagram of 2,000 bytes: each one becomes the fragment of the translated datagram.
import { describe, expect, test } from 'vitest';
import { buildFrame } from '../../../support/packets/build.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';

const drive = sharedDrive();

const LEFT = 0xffffffff;

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const at = PLACES[family];
  const first = 'udp payload=2000 frag=0+ take=1440 id=7';
  const last = 'udp payload=2000 frag=1440 id=7';

  const expectTranslated = (programs: readonly string[], from: string, to: string): void => {
    const out = programs.reduce(
      (frame, program) => drive.run(program, frame).frame,
      buildFrame(from),
    );
    expect(Buffer.from(out).toString('hex')).toBe(Buffer.from(buildFrame(to)).toString('hex'));
  };
  const both = ['fl_ingress', 'fl_egress'];

  test('of a request and of its reply', () => {
    publish(drive, family, { protocol: 'UDP', rule: { masquerade: true } });
    for (const word of [first, last]) {
      expectTranslated(
        both,
        `${client()} > ${vip()} ${word}`,
        `${node(40_000)} > ${pod(5)} ${word}`,
      );
    }
    for (const word of [first, last]) {
      expectTranslated(
        both,
        `${pod(5)} > ${node(40_000)} ${word}`,
        `${vip()} > ${client()} ${word}`,
      );
    }
    expect(drive.reasons()).toEqual({});
  });

  test('a later fragment whose first one was not seen is left, or dropped at a virtual address', () => {
    publish(drive, family, { protocol: 'UDP' });
    const sent = buildFrame(`${client()} > ${vip()} ${last}`);
    expect(drive.run('fl_ingress', sent)).toEqual({ action: LEFT, frame: sent });
    expect(drive.run('fl_egress', sent)).toEqual({ action: LEFT, frame: sent });
    drive.putWildcard(at.vip);
    expect(drive.run('fl_ingress', sent).action).toBe(2);
    expect(drive.reasons()).toEqual({ DROPPED_FRAGMENT: 1 });
  });

  test('fragments are told apart by their datagram', () => {
    publish(drive, family, { protocol: 'UDP' });
    drive.putWildcard(at.vip);
    drive.run('fl_ingress', buildFrame(`${client()} > ${vip()} ${first}`));
    const other = last.replace('id=7', 'id=8');
    expect(drive.run('fl_ingress', buildFrame(`${client()} > ${vip()} ${other}`)).action).toBe(2);
    expectTranslated(
      ['fl_ingress'],
      `${client()} > ${vip()} ${last}`,
      `${client()} > ${pod(5)} ${last}`,
    );
  });

  test('ports that belong to another datagram are not used', () => {
    publish(drive, family, { protocol: 'UDP' });
    drive.putWildcard(at.vip);
    drive.run('fl_ingress', buildFrame(`${client()} > ${vip()} ${first}`));
    drive.edit('fl_fragment', (value) => value.set([(value[4] ?? 0) ^ 1], 4));
    expect(drive.run('fl_ingress', buildFrame(`${client()} > ${vip()} ${last}`)).action).toBe(2);
  });

  test('a later fragment begins no flow', () => {
    publish(drive, family, { protocol: 'UDP' });
    drive.putWildcard(at.vip);
    drive.run('fl_ingress', buildFrame(`${client()} > ${vip()} ${first}`));
    drive.forgetConns(family);
    expect(drive.run('fl_ingress', buildFrame(`${client()} > ${vip()} ${last}`)).action).toBe(2);
    expect(drive.halfOpen(family)).toEqual([]);
  });
});
