// SPDX-License-Identifier: Apache-2.0
// Two clients with one port, whose first packets leave for one backend at the same moment on two CPUs: they never get one SNAT
// port.
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { buildFrame } from '../../support/packets/build.ts';
import { describeFrame } from '../../support/packets/describe.ts';
import { makeBpffs, type TestResource } from '../native/support/resources.ts';
import { PacketDrive } from './packet/support/packet-drive.ts';
import { type Ran, race } from './packet/support/race.ts';
import { names, PLACES, publish } from './packet/support/stage.ts';
import { onOneCpu } from './support/one-cpu.ts';

/** Each with another port of the clients. With nothing that guards both tables most of them give one SNAT port to two flows. */
const ROUNDS = 2_000;
const FIRST_PORT = 10_000;
/** Where other work takes the CPU from the one that the other waits for. Without waiting most pairs lose one. */
const MOST_LOST = 10;

const otherCpu = onOneCpu();
let bpffs: TestResource;
let drive: PacketDrive;
beforeEach(() => {
  bpffs = makeBpffs();
  const settings = { snatPorts: { first: 20_000, last: 65_535 } };
  drive = new PacketDrive(settings);
});
afterEach(() => {
  drive.close();
  bpffs.release();
});

const DROPPED = 2;

/** Both packets of each pair, unless one was dropped, or still has what is to be replaced. */
const servedOf = ([left, right]: readonly [readonly Ran[], readonly Ran[]], replaced: string) =>
  left.flatMap((one, n) => {
    const pair = [one, right[n]!] as const;
    return pair.some(
      ({ action, frame }) => action === DROPPED || describeFrame(frame).includes(replaced),
    )
      ? []
      : [pair.map(({ frame }) => frame) as [Uint8Array, Uint8Array]];
  });

/** New connections of all frontends: the first field of struct frontend_stat. */
function counted(): number {
  const { values } = drive.object.map('fl_fe_stat').readAll();
  const words = new BigUint64Array(values.slice().buffer);
  return Number(words.reduce((sum, word, n) => (n % 4 === 0 ? sum + word : sum), 0n));
}

const play = (program: string, mine: readonly Uint8Array[], others: readonly Uint8Array[]) =>
  race(drive.object.program(program), mine, others, {
    ...{ pin: join(bpffs.path, program), cpu: otherCpu ?? '' },
  });

describe.skipIf(otherCpu === undefined).each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { vip } = names(family);
  const { port } = PLACES[family];
  const clients =
    family === 'IPv4'
      ? (['198.51.100.1', '198.51.100.2'] as const)
      : (['2001:db8::1', '2001:db8::2'] as const);

  /** The first packets of a client, as they came in. */
  const began = (client: string): readonly Uint8Array[] =>
    Array.from({ length: ROUNDS }, (_, n) => {
      const line = `${port(client, FIRST_PORT + n)} > ${vip()} tcp SYN`;
      return drive.run('fl_ingress', buildFrame(line)).frame;
    });

  test('two flows have two SNAT ports', async () => {
    publish(drive, family, { rule: { masquerade: true } });
    const others = began(clients[1]);
    const [left, right] = await play('fl_egress', began(clients[0]), others);
    const sources = [...left, ...right].map(
      ({ frame }) => describeFrame(frame).split(' > ')[0] ?? '',
    );
    const own = sources.filter((source) => Number(/:(\d+)$/.exec(source)?.[1]) < 20_000).length;
    process.stdout.write(
      `${family}: ${left.length} rounds, ${own} flows with the port of their client\n`,
    );
    expect(left.length).toBeGreaterThan(0);
    expect(right).toHaveLength(left.length);
    expect(sources.length - new Set(sources).size, 'ports of two flows').toBe(0);
    expect(drive.reasons()).toEqual({});
  });

  test.each(['tcp SYN', 'udp payload=5'])(
    'of two packets at one moment that begin one connection (%s) both are served',
    async (kind) => {
      const protocol = kind.startsWith('tcp') ? 'TCP' : 'UDP';
      publish(drive, family, { protocol, rule: { masquerade: true }, backends: [{}, {}] });
      const frames = Array.from({ length: ROUNDS }, (_, n) =>
        buildFrame(`${port(clients[0], FIRST_PORT + n)} > ${vip()} ${kind}`),
      );
      const inside = await play('fl_ingress', frames, frames);
      expect(counted(), 'connections of the frontend').toBe(inside[0].length);
      const both = servedOf(inside, vip());
      const began = frames.map((frame) => drive.run('fl_ingress', frame).frame);
      const outside = await play('fl_egress', began, began);
      const through = servedOf(outside, port(clients[0], FIRST_PORT).replace(/\d+$/, ''));
      const lost = [inside[0].length - both.length, outside[0].length - through.length] as const;
      process.stdout.write(
        `${family} ${kind}: of ${inside[0].length} pairs ${lost.join(' lost one at ingress, and ')} at egress\n`,
      );
      for (const [left, right] of through) expect(describeFrame(right)).toBe(describeFrame(left));
      expect(through.length).toBeGreaterThan(0);
      expect(lost[0] + lost[1]).toBeLessThan(MOST_LOST);
      expect(drive.reasons().DROPPED_BUSY ?? 0).toBe(lost[0] + lost[1]);
    },
  );
});
