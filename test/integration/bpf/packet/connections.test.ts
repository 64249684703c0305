// SPDX-License-Identifier: Apache-2.0
// `fairlead connections` reads what the packet programs wrote: every state, in both families.
import { describe, expect, test } from 'vitest';
import { connTables } from '../../../../src/engines/bpf/conn/conn-table.ts';
import { connectionsOf } from '../../../../src/engines/bpf/flows/connections.ts';
import { readTraffic } from '../../../../src/engines/bpf/flows/traffic/ended.ts';
import { arrayTable, kernelTables } from '../../../../src/engines/bpf/kernel/maps/kernel.ts';
import { encodeServiceName, encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import type { Connection } from '../../../../src/engines/connections.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';
import { kernelSweep } from './support/sweeps.ts';

const drive = sharedDrive();

const listed = (): readonly Connection[] => {
  const map = (name: string) => drive.object.map(name);
  const sockets = { get: () => undefined, readAll: () => [] };
  const packets = connTables(map);
  return [...connectionsOf({ tables: kernelTables(map), sockets, packets }, () => undefined).all()];
};

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const request = (words: string): string => drive.through(`${client()} > ${vip()} ${words}`);
  const reply = (words: string): string => drive.through(`${pod(5)} > ${node(40_000)} ${words}`);
  const header = family === 'IPv4' ? 40 : 60;

  function open(protocol: 'TCP' | 'UDP' = 'TCP'): void {
    publish(drive, family, { protocol, rule: { masquerade: true } });
    const name = { name: 'default/web:http', protocol, family };
    drive.object.map('fl_service').put(encodeU32(1), encodeServiceName(name));
  }

  function only(): Connection {
    const [connection, ...others] = listed();
    if (connection === undefined || others.length > 0) {
      throw new Error(`not one connection: ${listed().map(({ key }) => key)}`);
    }
    return connection;
  }

  test('a masqueraded TCP connection, from SYN to FIN', () => {
    open();
    request('tcp SYN');
    expect(only()).toMatchObject({
      ...{ origin: 'packet', family, protocol: 'TCP', client: client(), frontend: vip() },
      ...{ backend: pod(5), backendState: 'active' },
      port: { namespace: 'default', name: 'web', portName: 'http' },
    });
    expect(only().read()).toMatchObject({
      ...{ state: 'new', snat: node(40_000) },
      toBackend: { packets: 1, bytes: header },
      toClient: { packets: 0, bytes: 0 },
    });
    reply('tcp SYN ACK');
    request('tcp ACK');
    reply('tcp ACK payload=100');
    expect(only().read()).toMatchObject({
      state: 'established',
      toBackend: { packets: 2, bytes: 2 * header },
      toClient: { packets: 2, bytes: 2 * header + 100 },
    });
    reply('tcp FIN ACK');
    expect(only().read()).toMatchObject({ state: 'half-closed' });
    request('tcp FIN ACK');
    expect(only().read()).toMatchObject({ state: 'closed' });
  });

  test('a UDP question and its answer, seconds of the monotonic clock', () => {
    const nowSeconds = () => Number(process.hrtime.bigint() / 1_000_000_000n);
    const before = nowSeconds();
    open('UDP');
    request('udp payload=1');
    reply('udp payload=2');
    expect(only().protocol).toBe('UDP');
    const view = only().read();
    expect(view).toMatchObject({ state: 'new', toClient: { packets: 1 } });
    for (const seconds of [view?.bornSeconds, view?.seenSeconds]) {
      expect(seconds).toBeGreaterThanOrEqual(before - 1);
      expect(seconds).toBeLessThanOrEqual(nowSeconds() + 1);
    }
  });

  test('more packets than 32 bits can count', () => {
    open('UDP');
    request('udp payload=1');
    reply('udp payload=1');
    const bytes = header - 12 + 1;
    const words = new Uint32Array(
      drive.object.map(`fl_conn_traf${family === 'IPv4' ? 4 : 6}`).mmap(),
    );
    // struct conn_traffic, also of records that are free.
    for (let at = 0; at < words.length; at += 6) words.fill(0xffff_ffff, at + 2, at + 4);
    request('udp payload=1');
    reply('udp payload=1');
    expect(only().read()).toMatchObject({
      toBackend: { packets: 2 ** 32, bytes: 2 * bytes },
      toClient: { packets: 2 ** 32, bytes: 2 * bytes },
    });
  });

  test('a stale connection is dropped, its counters are kept', () => {
    const sweep = kernelSweep(drive);
    open('UDP');
    request('udp payload=1');
    const { pod: podAddress } = PLACES[family];
    drive.putBackend({ id: 1, address: podAddress(5), port: 8080, state: 'GONE' });
    drive.putBackend({ id: 2, address: podAddress(6), port: 8080 });
    const stale = only();
    expect(stale.backendState).toBe('gone');
    expect(stale.dropStale()).toBe(true);
    expect(listed()).toEqual([]);
    while (!sweep.step());
    const kept = arrayTable(drive.object.map('fl_traffic'));
    const sums = Array.from({ length: 8 }, (_, id) => readTraffic(kept, id).toBackend.packets);
    expect(sums.filter((packets) => packets > 0)).toEqual([1]);
  });

  test.each(['client', 'backend'] as const)(
    'dropped, TCP does not go on with a packet of its %s',
    (side) => {
      open();
      request('tcp SYN');
      reply('tcp SYN ACK');
      request('tcp ACK');
      drive.putBackend({ id: 1, address: PLACES[family].pod(5), port: 8080, state: 'GONE' });
      drive.putBackend({ id: 2, address: PLACES[family].pod(6), port: 8080 });
      expect(only().dropStale()).toBe(true);
      if (side === 'client') {
        const back = `sent back: ${vip()} > ${client()}`;
        expect(drive.ingress(`${client()} > ${vip()} tcp ACK ack=77 payload=3`)).toBe(
          `${back} tcp RST seq=77`,
        );
      } else {
        const line = `${pod(5)} > ${node(40_000)} tcp ACK payload=100`;
        expect(drive.ingress(line)).toBe(line);
      }
      expect(listed()).toEqual([]);
    },
  );
});
