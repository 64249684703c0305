// SPDX-License-Identifier: Apache-2.0
// `fairlead connections` reads what the packet programs wrote: every state, in both families.
import { describe, expect, test } from 'vitest';
import { connectionsOf } from '../../../../src/dataplane/bpf/flows/connections.ts';
import { flowTables } from '../../../../src/dataplane/bpf/flows/kernel.ts';
import { readTraffic } from '../../../../src/dataplane/bpf/flows/traffic/ended.ts';
import { arrayTable, kernelTables } from '../../../../src/dataplane/bpf/maps/kernel.ts';
import { encodeServiceName, encodeU32 } from '../../../../src/dataplane/bpf/maps/layout.ts';
import type { Connection } from '../../../../src/dataplane/connections.ts';
import { memoryFlowTable } from '../../../support/dataplane/flow-bytes.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';

const drive = sharedDrive();

const traffic = () => arrayTable(drive.object.map('fl_traffic'));
const listed = (): readonly Connection[] => {
  const map = (name: string) => drive.object.map(name);
  const sockets = memoryFlowTable('fl_tcp_sock', 8, 48);
  const packets = { flows: flowTables(map), traffic: traffic() };
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
      ...{ state: 'new', snat: node(40_000), legs: ['flow', 'nat', 'snat'] },
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

  test('each entry alone: what the client’s next packet restores, and orphans', () => {
    open();
    request('tcp SYN');
    drive.clear('nat', 'new', family);
    expect(listed().map((one) => one.read()?.legs)).toEqual([['flow'], ['snat']]);
    request('tcp SYN');
    expect(only().read()?.legs).toEqual(['flow', 'nat', 'snat']);
    drive.clear('flow', 'new', family);
    expect(only().read()).toMatchObject({ state: 'orphan', legs: ['nat', 'snat'] });
    expect(only()).toMatchObject({ client: client(), frontend: vip(), backend: pod(5) });
  });

  test('a stale flow is dropped, its counters are kept, and the next packet gets another backend', () => {
    open('UDP');
    request('udp payload=1');
    const { pod: podAddress } = PLACES[family];
    drive.putBackend({ id: 1, address: podAddress(5), port: 8080, state: 'GONE' });
    drive.putBackend({ id: 2, address: podAddress(6), port: 8080 });
    const stale = only();
    expect(stale.backendState).toBe('gone');
    expect(stale.dropStale()).toBe(true);
    expect(listed()).toEqual([]);
    const kept = traffic();
    const sums = Array.from({ length: 8 }, (_, id) => readTraffic(kept, id).toBackend.packets);
    expect(sums.filter((packets) => packets > 0)).toEqual([1]);
  });
});
