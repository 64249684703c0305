// SPDX-License-Identifier: Apache-2.0
// XDP on VLANs and bonds with real devices of Linux 6.12, which the host's kernel may lack: by each way in and each way out (xdp.sh).
import { describe, expect, test } from 'vitest';
import { runLab } from '../lab.ts';

const WAYS_IN = {
  card: '192.0.2.11',
  'VLAN of a card': '192.0.6.1',
  bond: '192.0.9.1',
  'VLAN of a bond': '192.0.5.1',
} as const;
/** With the address of this node there: what its server sees. */
const WAYS_OUT = {
  card: ['10.1.2.5', '192.0.3.1'],
  'VLAN of a card': ['10.1.2.6', '192.0.7.1'],
} as const;
const COUNT = 20;
/** TCP: at least SYN, request and FIN, and what answers them; UDP: both datagrams. One in some seconds renews a neighbour. */
const FRAMES = { tcp: 6, udp: 2 } as const;

for (const mode of ['active-backup', 'balance-xor']) {
  const { guest, code, output, answer } = await runLab('6.12', ['xdp.sh', mode, 'FOLDER']);

  describe(`${guest.name}, a bond of mode ${mode}`, () => {
    test('all questions were asked', () => expect(code, output).toBe(0));

    const rows = (['tcp', 'udp'] as const).flatMap((protocol) =>
      Object.entries(WAYS_IN).flatMap(([into, address]) =>
        Object.entries(WAYS_OUT).map(
          ([out, [server, node]]) => [protocol, into, out, address, server, node] as const,
        ),
      ),
    );
    test.each(rows)('%s from a %s to a %s', (protocol, _into, _out, address, server, node) => {
      const question = `${protocol}, ${address}, ${server}`;
      expect(answer(question)).toBe(`${server}:8080>${node}=${COUNT}`);
      expect(Number(answer(`sent, ${question}`))).toBeGreaterThan(FRAMES[protocol] * COUNT * 0.8);
    });

    test('status says it of each device', () => {
      const xdp = (name: string): string =>
        new RegExp(`^status: .*\\b${name} .*XDP (\\w+: .*)$`, 'm').exec(output)?.[1] ?? '';
      for (const name of ['eth0', 'eth1', 'bond0']) expect(xdp(name), name).toMatch(/^on: /);
      for (const name of ['eth0', 'eth1', 'bond0']) {
        const vlan = { eth0: 'eth0.6', eth1: 'eth1.7', bond0: 'bond0.5' }[name] ?? '';
        expect(xdp(vlan), vlan).toMatch(new RegExp(`^on: its frames pass ${name}: `));
      }
      expect(output).toMatch(/^bond0: .*prog\/xdp id \d+/m);
    });
  });
}
