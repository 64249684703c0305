// SPDX-License-Identifier: Apache-2.0
// More connections than SNAT ports, to a backend of another node that closes them first, and so has them in TIME-WAIT:
// a port is given again while the backend remembers the former connection, and nobody waits for that.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeSysctls } from '../../../../src/sys/netns.ts';
import { startTraffic, type Traffic } from '../../../../tools/lab/columns/traffic.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNodes } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const UPLINK = '192.168.77.1';
const NODE_PORT = 30080;
/** The pod's own servers have others. */
const TARGET_PORT = 9090;
/** Leaves 4,536 ports, which are tried first. */
const PORTS = {
  'net/ipv4/ip_local_port_range': '1024 60999',
  'net/ipv4/ip_local_reserved_ports': '1024-60999',
};
/** Twice as many. */
const CONNECTIONS = 9_000;
/** A SYN that nobody answers is sent again after a second. */
const RESENT_NS = 900_000_000;

let all: TestNodes;
let traffic: Traffic;
let destination: Parameters<Traffic['measure']>[1];

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: [], clients: [] },
    { name: 'n2', servers: ['far'], clients: [] },
  ]);
  const [first, second] = all.nodes;
  const [far] = second!.pods('far');
  first!.manifests.put('web.yaml', [
    {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1' },
      status: { addresses: [{ type: 'InternalIP', address: UPLINK }] },
    },
    ...service('web', { n: 10, nodePort: NODE_PORT, targetPort: TARGET_PORT }, [far!]),
  ]);
  await writeSysctls(first!.self.namespace, PORTS);
  await first!.startAgent();
  const server = `${far!.namespace}:${TARGET_PORT}`;
  destination = { server, address: UPLINK, port: NODE_PORT };
  traffic = await startTraffic(second!.self, [server], 0);
});
afterAll(async () => {
  await traffic?.stop();
  all?.remove();
});

test('no connection waits for a second attempt', async () => {
  await until(async () => (await traffic.measure('tcp', destination, 1)).units === 1, {
    what: 'the NodePort to answer',
  });
  const { units, lost, p999Ns } = await traffic.measure('tcp', destination, CONNECTIONS);
  expect({ units, lost }).toEqual({ units: CONNECTIONS, lost: 0 });
  expect(p999Ns).toBeLessThan(RESENT_NS);
});
