// SPDX-License-Identifier: Apache-2.0
// From kube-proxy's configuration file to the map that the packet programs read: how long flows live. A changed file
// takes effect with the next start.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { mapPath } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import { openPinnedMap } from '../../../../src/sys/native.ts';
import { service } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

/** Of struct flow_timeouts in struct packet_settings. */
const TIMEOUTS_AT = 8;
const NAMES = [
  'tcpNew',
  'tcpEstablished',
  'tcpHalfClosed',
  'tcpClosed',
  'udpNew',
  'udpEstablished',
];
/** No setting of kube-proxy is for these. */
const OWN = { tcpNew: 20, tcpClosed: 10 };

let node: Awaited<ReturnType<typeof startOneNode>>;
let config: string;

beforeAll(async () => {
  node = await startOneNode(['a']);
  config = join(node.instance.runDir, 'config.conf');
  node.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
});
afterAll(() => node?.remove());

function write(conntrack: string): void {
  const lines = [
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1',
    'kind: KubeProxyConfiguration',
    conntrack,
  ];
  writeFileSync(config, `${lines.join('\n')}\n`);
}

function timeouts(): Readonly<Record<string, number>> {
  const map = openPinnedMap(mapPath(node.instance.bpfRoot, 'fl_packet'));
  try {
    const bytes = map.get(encodeU32(0))!;
    const view = new DataView(bytes.buffer, bytes.byteOffset + TIMEOUTS_AT);
    return Object.fromEntries(NAMES.map((name, at) => [name, view.getUint32(4 * at, true)]));
  } finally {
    map.close();
  }
}

test('what the file says is in the map, and a changed file with the next start', async () => {
  write(`conntrack:
  tcpEstablishedTimeout: 2h0m0s
  tcpCloseWaitTimeout: 1m30s
  udpTimeout: 7s
  udpStreamTimeout: 45s`);
  const first = await node.startAgent(['--config', config]);
  const before = {
    ...OWN,
    ...{ tcpEstablished: 7_200, tcpHalfClosed: 90, udpNew: 7, udpEstablished: 45 },
  };
  expect(timeouts()).toEqual(before);
  write(`conntrack:
  tcpEstablishedTimeout: 3h0m0s
  udpStreamTimeout: 0s`);
  await until(() => first.log.some((line) => line.includes('configuration changed')), {
    what: 'the agent to notice the new file',
  });
  expect(timeouts()).toEqual(before);
  await first.stop();
  const second = await node.startAgent(['--config', config]);
  expect(timeouts()).toEqual({
    ...OWN,
    ...{ tcpEstablished: 10_800, tcpHalfClosed: 3_600, udpNew: 30, udpEstablished: 120 },
  });
  await second.kill();
});

test('without the section, and where the kernel’s values are to stay, the defaults', async () => {
  const defaults = {
    ...OWN,
    ...{ tcpEstablished: 86_400, tcpHalfClosed: 3_600, udpNew: 30, udpEstablished: 120 },
  };
  for (const section of ['', 'conntrack: {tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}']) {
    write(section);
    const agent = await node.startAgent(['--config', config]);
    expect(timeouts()).toEqual(defaults);
    await agent.kill();
  }
});

test('kube-proxy’s flags, without a file', async () => {
  const agent = await node.startAgent([
    ...['--conntrack-tcp-timeout-established=5m', '--conntrack-tcp-timeout-close-wait=20s'],
    ...['--conntrack-udp-timeout=3s', '--conntrack-udp-timeout-stream=9s'],
  ]);
  expect(timeouts()).toEqual({
    ...OWN,
    ...{ tcpEstablished: 300, tcpHalfClosed: 20, udpNew: 3, udpEstablished: 9 },
  });
  await agent.stop();
});
