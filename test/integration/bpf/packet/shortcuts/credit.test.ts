// SPDX-License-Identifier: Apache-2.0
// Connections that begin in the main tables: as many half-open ones as there is credit for.
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { until } from '../../../../support/until.ts';
import { onOneCpu } from '../../support/one-cpu.ts';
import { PacketDrive } from '../support/packet-drive.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, publish } from '../support/stage.ts';

const CREDIT = 3;
const rule = { masquerade: true };

// Each CPU has credit of its own.
onOneCpu();

const shared = sharedDrive({}, { mainCredit: CREDIT });

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const suffix = family === 'IPv4' ? 4 : 6;
  let drive = shared;
  const serve = (): void => {
    for (const protocol of ['TCP', 'UDP'] as const) publish(drive, family, { protocol, rule });
  };
  beforeEach(serve);
  /** A copy of the programs for this test alone. */
  const open = (sizes: Readonly<Record<string, number>> = {}, mainCredit = CREDIT): void => {
    const own = new PacketDrive({}, sizes, { mainCredit });
    drive = own;
    onTestFinished(() => {
      own.close();
      drive = shared;
    });
    serve();
  };

  const request = (n: number, word: string): string =>
    drive.through(`${client(40_000 + n)} > ${vip()} ${word}`);
  const reply = (n: number, word: string): string =>
    drive.through(`${pod(5)} > ${node(40_000 + n)} ${word}`);
  const count = () =>
    (['main', 'new'] as const).map((tier) =>
      [drive.flows(tier, family), drive.nats(tier, family), drive.snats(tier, family)].map(
        (entries) => entries.length,
      ),
    );
  const states = () => drive.flows('main', family).map(({ value }) => value.state);
  const inMain = (flows: number, halfOpen = 0) => [
    [flows, flows, flows],
    [halfOpen, halfOpen, halfOpen],
  ];
  function establish(n: number): void {
    request(n, 'tcp SYN');
    reply(n, 'tcp SYN ACK');
    request(n, 'tcp ACK');
  }

  test('a connection stays where it began, and is established by the ACK after SYN and ACK', () => {
    expect(request(0, 'tcp SYN')).toBe(`${node(40_000)} > ${pod(5)} tcp SYN`);
    expect([count(), states()]).toEqual([inMain(1), ['new']]);
    request(0, 'tcp SYN');
    expect(reply(0, 'tcp SYN ACK')).toBe(`${vip()} > ${client()} tcp SYN ACK`);
    expect(states()).toEqual(['new']);
    expect(request(0, 'tcp ACK payload=9')).toBe(`${node(40_000)} > ${pod(5)} tcp ACK payload=9`);
    expect([count(), states()]).toEqual([inMain(1), ['established']]);
    reply(0, 'tcp FIN ACK');
    request(0, 'tcp FIN ACK');
    expect(states()).toEqual(['closed']);
  });

  test('what has no credit begins among half-open flows, and moves when it is answered', () => {
    for (let n = 0; n < CREDIT; n += 1) request(n, 'tcp SYN');
    request(CREDIT, 'tcp SYN');
    expect(count()).toEqual(inMain(CREDIT, 1));
    reply(CREDIT, 'tcp SYN ACK');
    request(CREDIT, 'tcp ACK');
    expect(count()).toEqual(inMain(CREDIT + 1));
  });

  test('a flow whose other legs are among half-open ones begins there, too, and they move together', () => {
    for (let n = 0; n <= CREDIT; n += 1) request(n, 'tcp SYN');
    drive.clear('flow', 'new', family);
    reply(0, 'tcp SYN ACK');
    request(0, 'tcp ACK');
    request(CREDIT, 'tcp SYN');
    expect(count()).toEqual(inMain(CREDIT, 1));
    reply(CREDIT, 'tcp SYN ACK');
    request(CREDIT, 'tcp ACK');
    expect(count()).toEqual(inMain(CREDIT + 1));
  });

  test('a connection that is established gives its credit back, once', () => {
    for (let n = 0; n < 2 * CREDIT; n += 1) establish(n);
    request(0, 'tcp ACK');
    for (let n = 0; n <= CREDIT; n += 1) request(50 + n, 'tcp SYN');
    expect(count()).toEqual(inMain(3 * CREDIT, 1));
  });

  test('with time all credit comes back, whatever became of it', async () => {
    open({}, 64);
    let n = 0;
    const begin = (): number => {
      n += 1;
      request(n, 'tcp SYN');
      return drive.flows('main', family).length;
    };
    while (drive.flows('new', family).length === 0) begin();
    const spent = drive.flows('main', family).length;
    expect(spent).toBeGreaterThanOrEqual(64);
    await until(async () => begin() > spent, 'two more in a second');
  });

  test('a datagram begins among half-open flows', () => {
    request(0, 'udp payload=1');
    expect(count()).toEqual(inMain(0, 1));
  });

  test.each(['flow', 'nat', 'snat'] as const)('the %s table is full', (leg) => {
    open({ [`fl_${leg}${suffix}`]: 1 });
    establish(0);
    expect(request(1, 'tcp SYN')).toBe(`${node(40_001)} > ${pod(5)} tcp SYN`);
    expect(reply(1, 'tcp SYN ACK')).toBe(`${vip()} > ${client(40_001)} tcp SYN ACK`);
    expect(request(1, 'tcp ACK')).toBe(`${node(40_001)} > ${pod(5)} tcp ACK`);
    expect(reply(1, 'tcp ACK')).toBe(`${vip()} > ${client(40_001)} tcp ACK`);
    expect(request(0, 'tcp ACK')).toBe(`${node(40_000)} > ${pod(5)} tcp ACK`);
  });
});
