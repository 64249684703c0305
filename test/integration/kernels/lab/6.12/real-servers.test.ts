// SPDX-License-Identifier: Apache-2.0
// The example examples/real-servers on Linux 6.12: plain Linux machines take what one agent sends them in IPIP, see the client, and
// answer it past the agent (real-servers.sh). What iptables makes of it is seen, too.
import { describe, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { runLab } from '../lab.ts';

const CLIENT = { IPv4: '198.51.100.9', IPv6: '2001:db8:9::9' } as const;
const VIP = { IPv4: '203.0.113.10', IPv6: '[2001:db8:77::10]' } as const;
/** What real servers see of a masqueraded client. */
const BALANCER = { IPv4: '192.0.2.11', IPv6: '2001:db8:2::11' } as const;
const PORTS = [
  ['TCP', 80],
  ['UDP', 53],
] as const;

describe('--engine bpf', async () => {
  const { code, output, answer } = await runLab('6.12', ['real-servers.sh', 'bpf', 'FOLDER']);
  const lines = (what: string): string =>
    output
      .split('\n')
      .filter((line) => line.startsWith(`${what}: `))
      .join('\n');

  test('all questions were asked', () => expect(code, output).toBe(0));

  for (const family of FAMILIES) {
    test.each(PORTS)(
      `${family}: by %s the server sees the client at the address it used`,
      (protocol, port) => {
        expect(answer(`${protocol}, ${family}`)).toBe(
          `${VIP[family]}:${port}>${CLIENT[family]}=20`,
        );
      },
    );

    test(`${family}: full segments, with room for one more header`, () => {
      expect(answer(`400,000 bytes, ${family}`)).toBe(`400000 bytes of ${CLIENT[family]}`);
    });
  }

  test('both servers had packets of both families in their tunnels', () => {
    const counts = (what: string) => (answer(what) ?? '').trim().split(/ +/).map(Number);
    const before = counts('before');
    expect(before).toHaveLength(4);
    for (const [at, count] of counts('after').entries())
      expect(count - before[at]!).toBeGreaterThan(20);
  });

  test('a datagram that does not fit is answered once its sender knows', () => {
    expect(answer('a datagram of 1,470 bytes, try 3')).toBe(`${VIP.IPv4}:53>${CLIENT.IPv4}=1`);
  });

  test('services and explain say how', () => {
    expect(lines('services')).toMatch(/203\.0\.113\.10:80\/TCP .* ipip(?: |$)/m);
    expect(lines('explain')).toContain(
      'in IPIP to 192.0.2.81, which answers the client from 203.0.113.10',
    );
  });

  test('another targetPort is rejected by name', () => {
    expect(lines('status')).toContain(
      'ipip leaves ports as they are: port http (80/TCP) has the endpoint 192.0.2.81:8080; it is served by snat',
    );
  });
});

describe('--engine iptables', async () => {
  const { output, answer } = await runLab('6.12', ['real-servers.sh', 'iptables', 'FOLDER']);

  test.each(FAMILIES)('%s: masqueraded, and views say so', (family) => {
    expect(answer(`TCP, ${family}`), output).toMatch(new RegExp(`>${BALANCER[family]}=`));
    expect(output).toMatch(/^services: .*203\.0\.113\.10:80\/TCP .* ipip \(snat\)/m);
  });
});
