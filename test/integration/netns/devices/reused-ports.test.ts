// SPDX-License-Identifier: Apache-2.0
// Connections through a NodePort to a backend of another node that closes them first, and so has them in TIME-WAIT: ports are
// used again while the backend remembers the former connection, and nobody waits for that.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { insideNamespace, writeSysctls } from '../../../../src/sys/netns.ts';
import { startTraffic, type Traffic } from '../../../../tools/lab/columns/traffic.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNodes } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const UPLINK = '192.168.77.1';
const NODE_PORT = 30080;
/** The pod's own servers have others. */
const TARGET_PORT = 9090;
type Sysctls = Parameters<typeof writeSysctls>[1];

let all: TestNodes;
let traffic: Traffic;
let destination: Parameters<Traffic['measure']>[1];
let clientNamespace: string;

/** The node of the Service, and the client, with these settings. */
async function open(ofNode: Sysctls, ofClient: Sysctls): Promise<void> {
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
  clientNamespace = second!.self.namespace;
  await writeSysctls(first!.self.namespace, ofNode);
  await writeSysctls(clientNamespace, ofClient);
  await first!.startAgent();
  const server = `${far!.namespace}:${TARGET_PORT}`;
  destination = { server, address: UPLINK, port: NODE_PORT };
  traffic = await startTraffic(second!.self, [server], 0);
  await until(async () => (await traffic.measure('tcp', destination, 1)).units === 1, {
    what: 'the NodePort to answer',
  });
}

async function close(): Promise<void> {
  await traffic?.stop();
  all?.remove();
}

describe('more connections than SNAT ports', () => {
  /** Leaves 4,536 ports, which are tried first. */
  const PORTS = {
    'net/ipv4/ip_local_port_range': '1024 60999',
    'net/ipv4/ip_local_reserved_ports': '1024-60999',
  };
  /** Twice as many. */
  const CONNECTIONS = 9_000;
  /** A SYN that nobody answers is sent again after a second. */
  const RESENT_NS = 900_000_000;

  beforeAll(() => open(PORTS, {}));
  afterAll(close);

  test('no connection waits for a second attempt', async () => {
    const { units, lost, p999Ns } = await traffic.measure('tcp', destination, CONNECTIONS);
    expect({ units, lost }).toEqual({ units: CONNECTIONS, lost: 0 });
    expect(p999Ns).toBeLessThan(RESENT_NS);
  });
});

describe('a client that uses each of its ports again and again', () => {
  const CONNECTIONS = 20_000;
  /** 1,000 ports, of which none waits for its former connection: the backend does. */
  const PORTS = { 'net/ipv4/ip_local_port_range': '20000 20999' };
  const MOST_RESENT = 0.001;

  beforeAll(() => open({}, PORTS));
  afterAll(close);

  /** A counter of TcpExt, which the file has below its name. */
  async function countedByClient(counter: string): Promise<number> {
    const [program = '', ...args] = insideNamespace(clientNamespace, ['cat', '/proc/net/netstat']);
    const { stdout } = await run(program, args);
    const [names, values] = stdout.split('\n').filter((line) => line.startsWith('TcpExt:'));
    const at = (names ?? '').split(' ').indexOf(counter);
    expect(at, counter).toBeGreaterThan(0);
    return Number((values ?? '').split(' ')[at]);
  }

  test('of a thousand SYNs less than one is sent again', async () => {
    const before = await countedByClient('TCPSynRetrans');
    const { units, lost } = await traffic.measure('tcp', destination, CONNECTIONS);
    const resent = (await countedByClient('TCPSynRetrans')) - before;
    expect({ units, lost }).toEqual({ units: CONNECTIONS, lost: 0 });
    expect(resent / CONNECTIONS).toBeLessThan(MOST_RESENT);
    process.stdout.write(`SYNs sent again: ${resent} of ${CONNECTIONS}\n`);
  });
});
