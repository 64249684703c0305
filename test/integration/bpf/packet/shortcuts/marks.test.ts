// SPDX-License-Identifier: Apache-2.0
// Marks of addresses: those that no flow needs are cleared, those of flows never.
import { beforeEach, describe, expect, test } from 'vitest';
import {
  clearFormer,
  createMarkSweep,
  MARKING_ROUNDS,
} from '../../../../../src/engines/bpf/flows/sweep/marks.ts';
import type { Sweep } from '../../../../../src/engines/bpf/flows/sweep/sweep.ts';
import { arrayTable } from '../../../../../src/engines/bpf/kernel/maps/kernel.ts';
import { element } from '../../../../../src/engines/bpf/state/tables.ts';
import { waitGracePeriod } from '../../../../../src/sys/native.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { NODES, putBackendNode, putPeer, withRoutes } from '../support/nodes.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';
import { kernelSweep } from '../support/sweeps.ts';

const drive = sharedDrive();
withRoutes(drive);
let sweep: Sweep;
beforeEach(() => {
  sweep = kernelSweep(drive);
});

const round = (): void => {
  while (!sweep.step());
};
const table = arrayTable(drive.object.map('fl_mark'));
const LINES = table.length - 1;
const MARKS_PER_LINE = 64;
const readMarks = (): Uint8Array =>
  drive.object
    .map('fl_mark')
    .readAll()
    .values.subarray(0, LINES * MARKS_PER_LINE);
const marks = (): number => readMarks().reduce((sum, mark) => sum + Number(mark !== 0), 0);

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const BACKENDS = 3_000;

  /** One after the other, each the only one of the Service. */
  function comeAndGo(): void {
    for (let n = 0; n < BACKENDS; n += 1) {
      const address = family === 'IPv4' ? `10.9.${n >> 8}.${n & 255}` : `fd00:9::${n.toString(16)}`;
      publish(drive, family, { protocol: 'UDP', backends: [{ address, generation: n + 2 }] });
      drive.run('fl_ingress', buildFrame(`${client(5_000 + n)} > ${vip()} udp payload=1`));
    }
    drive.age(3600, family, ({ isHalfOpen }) => isHalfOpen);
    round();
  }

  /** As many rounds of the sweep as it takes, one after the other. */
  async function clearAsAgent(between = (): void => {}): Promise<void> {
    let grace = Promise.resolve();
    const care = createMarkSweep({
      marks: table,
      waitGracePeriod: () => {
        grace = waitGracePeriod();
        return grace;
      },
    });
    for (let n = 0; n < 2 + MARKING_ROUNDS; n += 1) {
      round();
      care.turn(true);
      await grace;
      between();
    }
  }

  test('many backends that came and went leave none; flows go on in both directions', async () => {
    publish(drive, family, { rule: { masquerade: true } });
    const send = (word: string) => drive.through(`${client()} > ${vip()} ${word}`);
    const answer = (word: string) => drive.through(`${pod(5)} > ${node(40_000)} ${word}`);
    send('tcp SYN');
    answer('tcp SYN ACK');
    send('tcp ACK');
    const own = marks();
    expect(own).toBeGreaterThan(0);
    publish(drive, family, { protocol: 'UDP' });
    drive.ingress(`${client(40_001)} > ${vip()} udp payload=1`);
    const both = marks();
    comeAndGo();
    expect(marks()).toBeGreaterThan(BACKENDS);
    drive.putBackend({ id: 1, address: PLACES[family].pod(5), port: 8080 });
    drive.putBackend({ id: 2, address: PLACES[family].pod(9), port: 9090 });
    const rules = { host: { set: drive.putSet(1, [2]) } };
    drive.putFrontend({ address: PLACES[family].vip, port: 81, rules });
    let begun = 0;
    await clearAsAgent(() => {
      drive.ingress(`${client(41_000 + begun++)} > ${vip(81)} tcp SYN`);
    });
    expect(begun).toBeGreaterThan(0);
    expect(marks()).toBeLessThan(both + 10);

    expect(marks()).toBeGreaterThanOrEqual(own);
    expect(send('tcp ACK')).toBe(`${node(40_000)} > ${pod(5)} tcp ACK`);
    expect(answer('tcp ACK')).toBe(`${vip()} > ${client()} tcp ACK`);
    for (let n = 0; n < begun; n += 1) {
      const line = drive.ingress(`${client(41_000 + n)} > ${vip(81)} tcp ACK`);
      expect(line).toBe(`${client(41_000 + n)} > ${pod(9, 9090)} tcp ACK`);
    }
  });

  /** All marks are of the former epoch; one round of the sweep, and they are cleared. */
  function clearAfterRound(): void {
    element(table, LINES)[0] = 1;
    round();
    clearFormer(table);
  }
  test.each([true, false])('a connection goes on, masqueraded: %s', (masquerade) => {
    publish(drive, family, { protocol: 'UDP', rule: { masquerade } });
    const seen = masquerade ? node(40_000) : client();
    const ask = () => drive.through(`${client()} > ${vip()} udp payload=1`);
    const answer = () => drive.through(`${pod(5)} > ${seen} udp payload=2`);
    const both = [`${seen} > ${pod(5)} udp payload=1`, `${vip()} > ${client()} udp payload=2`];
    expect([ask(), answer()]).toEqual(both);
    clearAfterRound();
    expect([ask(), answer()]).toEqual(both);
  });

  test('the sweep marks no backend of direct return, whose answers go another way', () => {
    const { peer } = NODES[family];
    publish(drive, family, { rule: { masquerade: true, returnsDirectly: true } });
    putPeer(drive, peer);
    putBackendNode(drive, 1, peer);
    drive.run('fl_ingress', buildFrame(`${client()} > ${vip()} tcp SYN`));
    expect(drive.conns(family)).toMatchObject([{ isOneSided: true }]);
    const before = marks();
    round();
    expect(marks()).toBe(before);
  });

  test('answers to the node’s own datagrams from the number of a NodePort go to the node', () => {
    const port = 30_080;
    publish(drive, family, { protocol: 'UDP' });
    drive.putFrontend({
      family,
      port,
      protocol: 'UDP',
      rules: { host: { set: drive.putSet(0, [1]) } },
    });
    drive.putNodeAddress(PLACES[family].node, 'node');
    drive.putNodePorts(1);
    drive.egress(`${node(port)} > ${client(9_000)} udp payload=4`);
    clearAfterRound();
    const answered = `${client(9_000)} > ${node(port)} udp payload=4`;
    expect(drive.ingress(answered)).toBe(answered);
  });
});
