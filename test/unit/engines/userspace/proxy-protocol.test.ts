// SPDX-License-Identifier: Apache-2.0
// fairlead.io/proxy-protocol: backends get a header of the PROXY protocol, version 2, at the head of each TCP connection and
// nowhere else. The parser is the test's own, after the text of the protocol.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { BPF, userspaceCapabilities } from '../../../../src/engines/capabilities.ts';
import { limitationsOf } from '../../../../src/engines/limitations.ts';
import { proxyHeader } from '../../../../src/engines/userspace/choice/proxy-header.ts';
import { relayedTcp } from '../../../../src/engines/userspace/kernel/relayed-tcp.ts';
import { type ListenTcp, streamedTcp } from '../../../../src/engines/userspace/kernel/tcp.ts';
import { answer } from '../../../../src/observe/answer.ts';
import type { Packet } from '../../../../src/plan/explain/packet.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import { backend, clusterIp, planOf, servicePort } from '../bpf/plans.ts';
import { closeAll, dial, opened, reachedAt, textOf, tracked } from './over-sockets.ts';

afterEach(closeAll);

interface Parsed {
  readonly source: string;
  readonly destination: string;
  readonly rest: string;
}

/** Throws on what is no header of version 2. */
function parse(bytes: Buffer): Parsed {
  const signature = '0d0a0d0a000d0a515549540a';
  if (bytes.subarray(0, 12).toString('hex') !== signature) throw new Error('no signature');
  if (bytes[12] !== 0x21) throw new Error(`version and command ${bytes[12]}`);
  const size = { 17: 4, 33: 16 }[bytes[13] ?? 0];
  if (size === undefined) throw new Error(`family and protocol ${bytes[13]}`);
  const length = bytes.readUInt16BE(14);
  if (length !== 2 * size + 4) throw new Error(`length ${length}`);
  const address = (at: number): string => {
    const raw = bytes.subarray(at, at + size);
    return size === 4 ? raw.join('.') : raw.toString('hex');
  };
  const ports = 16 + 2 * size;
  return {
    source: `${address(16)} ${bytes.readUInt16BE(ports)}`,
    destination: `${address(16 + size)} ${bytes.readUInt16BE(ports + 2)}`,
    rest: bytes.subarray(16 + length).toString('latin1'),
  };
}

const v2 = (plan: Plan): Plan => ({
  ...plan,
  services: new Map(
    [...plan.services].map(([key, service]) => [
      key,
      { ...service, ports: service.ports.map((port) => ({ ...port, proxyProtocol: 'v2' })) },
    ]),
  ),
});

describe('the header', () => {
  test('of IPv4 has the addresses and ports', () => {
    const ends = { client: '192.0.2.7', clientPort: 50_000 };
    const header = proxyHeader({ ...ends, destination: '10.96.0.10', destinationPort: 80 });
    expect(header).toHaveLength(28);
    expect(parse(Buffer.from(header))).toEqual({
      ...{ source: '192.0.2.7 50000', destination: '10.96.0.10 80', rest: '' },
    });
  });

  test('of IPv6 too', () => {
    const ends = { client: '2001:db8::7', clientPort: 1 };
    const header = proxyHeader({ ...ends, destination: 'fd00::a', destinationPort: 65_535 });
    expect(header).toHaveLength(52);
    expect(parse(Buffer.from(header))).toEqual({
      source: '20010db8000000000000000000000007 1',
      destination: 'fd00000000000000000000000000000a 65535',
      rest: '',
    });
  });
});

const RELAYS: readonly (readonly [string, () => ListenTcp])[] = [
  ['streams of Node', () => streamedTcp],
  ['the thread of the addon', relayedTcp],
];

test.each(RELAYS)('%s: it comes once, before all that the client says', async (_name, listen) => {
  const server = tracked(
    createServer({ allowHalfOpen: true }, (socket) => void tracked(socket).pipe(socket)),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const { dataplane } = opened({ listenTcp: listen() });
  const web = planOf(servicePort('web', [clusterIp('192.0.2.10')], [backend('127.0.0.1', port)]));
  await dataplane.sync(v2(web), 'all', []);
  const sent = 'x'.repeat(500_000);
  for (let round = 0; round < 2; round += 1) {
    const socket = await dial(await reachedAt(dataplane));
    const from = `127.0.0.1 ${socket.localPort}`;
    socket.setEncoding('latin1').end(sent);
    const parts: string[] = [];
    for await (const part of socket) parts.push(part as string);
    const parsed = parse(Buffer.from(parts.join(''), 'latin1'));
    expect([parsed.source, parsed.destination]).toEqual([from, '192.0.2.10 80']);
    expect(parsed.rest === sent).toBe(true);
  }
  await dataplane.sync(web, 'all', []);
  const plain = await dial(await reachedAt(dataplane));
  plain.end('plain');
  expect(await textOf(plain)).toBe('plain');
});

describe('what is said of it', () => {
  const plan = v2(planOf(servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.1')])));
  const packet: Packet = {
    ...{ source: '192.0.2.7', sourcePort: 1, protocol: 'TCP' as const },
    ...{ destination: '10.96.0.10', destinationPort: 80 },
  };

  test('explain: whether backends get it from the engine that serves', () => {
    const stepOf = (capabilities: typeof BPF) =>
      answer(plan, packet, { dataplanes: [capabilities] }).steps.find(
        ({ rule }) => rule === 'proxy protocol',
      );
    expect(stepOf(userspaceCapabilities('port-map'))).toMatchObject({ result: 'v2' });
    expect(stepOf({ ...BPF, serves: userspaceCapabilities('port-map').serves })).toMatchObject({
      result: 'none',
      reason: 'only the engine userspace sends it, not bpf',
    });
  });

  test('status: it is for TCP alone', () => {
    expect(limitationsOf(userspaceCapabilities('addresses'))).toContainEqual({
      ...{ dataplane: 'userspace', code: 'PROXY_PROTOCOL' },
      reason: 'fairlead.io/proxy-protocol names the client for TCP alone',
    });
  });

  test('a relay by streams says why', () => {
    expect(limitationsOf(userspaceCapabilities('addresses', 'there is no addon'))).toContainEqual({
      ...{ dataplane: 'userspace', code: 'SLOW_RELAY' },
      reason:
        'bytes of TCP connections pass through JavaScript, several times slower: there is no addon',
    });
  });
});
