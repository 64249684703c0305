// SPDX-License-Identifier: Apache-2.0
// Connections from the node to elsewhere, of its own or masqueraded by netfilter, whose port has the number of a NodePort: what comes
// back is no request to the NodePort.
import { describe, expect, test } from 'vitest';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';

const drive = sharedDrive();

const NODE_PORT = 30_080;

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, node, pod, vip } = names(family);
  const at = PLACES[family];
  const there = client(9000);
  const asked = `${node(NODE_PORT)} > ${there}`;
  const answered = `${there} > ${node(NODE_PORT)}`;

  function serve(protocol: 'TCP' | 'UDP' | 'SCTP'): void {
    publish(drive, family, { protocol, backendPort: NODE_PORT });
    const rules = { host: { set: drive.putSet(0, [1]) } };
    drive.putFrontend({ family, port: NODE_PORT, protocol, rules });
    drive.putNodeAddress(at.node, 'node');
    drive.putNodePorts(1);
  }
  /** Without a backend: they only say whose a port is. */
  const noted = (): number => drive.conns(family).filter(({ backendId }) => backendId === 0).length;

  test.each(['SYN ACK', 'ACK payload=5', 'RST'])('TCP, %s', (flags) => {
    serve('TCP');
    expect(drive.egress(`${asked} tcp SYN`)).toBe(`${asked} tcp SYN`);
    expect(drive.ingress(`${answered} tcp ${flags}`)).toBe(`${answered} tcp ${flags}`);
    expect(drive.ingress(`${answered} tcp SYN`), 'a request').toBe(
      `${there} > ${pod(5, NODE_PORT)} tcp SYN`,
    );
  });

  test('TCP to a virtual address is no connection of the node', () => {
    serve('TCP');
    expect(drive.ingress(`${there} > ${vip()} tcp ACK ack=7`)).toContain('sent back');
  });

  test.each([
    ['UDP', 'udp payload=4'],
    ['SCTP', 'sctp payload=4'],
  ] as const)('%s', (protocol, word) => {
    serve(protocol);
    expect(drive.egress(`${asked} ${word}`)).toBe(`${asked} ${word}`);
    expect(drive.egress(`${asked} ${word}`), 'by a second device').toBe(`${asked} ${word}`);
    expect(noted()).toBe(1);
    for (let n = 0; n < 3; n++) {
      expect(drive.ingress(`${answered} ${word}`)).toBe(`${answered} ${word}`);
    }
    const other = `${client(9001)} > `;
    const request = drive.ingress(`${other}${node(NODE_PORT)} ${word}`);
    expect(request, 'a request').toBe(`${other}${pod(5, NODE_PORT)} ${word}`);
  });

  test('answers of the NodePort that cross a second device are none of the node', () => {
    serve('UDP');
    drive.through(`${answered} udp payload=4`);
    const answer = drive.egress(`${pod(5, NODE_PORT)} > ${there} udp payload=4`);
    expect(answer).toBe(`${asked} udp payload=4`);
    expect(drive.egress(answer)).toBe(answer);
    expect(noted()).toBe(0);
  });

  test('other ports, and other addresses than those that answer NodePorts, leave nothing', () => {
    serve('UDP');
    drive.egress(`${node(NODE_PORT + 1)} > ${there} udp payload=4`);
    drive.egress(`${pod(7, NODE_PORT)} > ${there} udp payload=4`);
    drive.putNodePorts(0);
    drive.egress(`${asked} udp payload=4`);
    expect(noted()).toBe(0);
  });
});
