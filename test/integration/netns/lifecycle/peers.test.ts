// SPDX-License-Identifier: Apache-2.0
// Other nodes as an agent finds them that starts again when no Service asks for direct return any more: its flows go on, and others
// may still send, so that it follows Nodes as the earlier one did.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { decodeNodeAddress } from '../../../../src/engines/bpf/direct-return/direct-layout.ts';
import { mapPath } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import type { JsonRecord } from '../../../../src/lib/json.ts';
import type { Kind } from '../../../../src/model/types.ts';
import { type Child, start, stop } from '../../../../src/sys/exec.ts';
import { openPinnedMap } from '../../../../src/sys/native.ts';
import { ownPaths } from '../../../../tools/lab/agent.ts';
import { type StubApi, startStubApi } from '../../../../tools/lab/api/stub.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { balancerOf, nodeObject } from '../../../support/packets/direct-return.ts';
import { until, untilHolds } from '../../../support/until.ts';

let all: TestNodes;
let node: TestNode;
let api: StubApi;

beforeAll(async () => {
  all = await startNodes([{ name: 'n1', servers: [], clients: [] }]);
  [node] = all.nodes as [TestNode];
  const directory = join(all.topology.directory, 'api');
  mkdirSync(directory);
  api = await startStubApi(node.self, '127.0.0.1', directory);
});
afterAll(async () => {
  await api?.stop();
  all?.remove();
});

const put = (...objects: readonly JsonRecord[]): Promise<void> =>
  api.change(
    objects.map((object) => {
      const { name = '', namespace = '' } = object['metadata'] as Record<string, string>;
      return { type: 'put', ref: { kind: object['kind'] as Kind, namespace, name }, object };
    }),
  );

async function startAgent(): Promise<Child> {
  const { sandbox, nodeName, cgroupRoot } = node.instance;
  const argv = [process.execPath, compiledPath('main.js'), 'run', '--kubeconfig', api.kubeconfig];
  const own = ['--hostname-override', nodeName, '--cgroup-root', cgroupRoot];
  const [program = '', ...args] = insideSandbox(sandbox, [
    ...[...argv, ...own, ...ownPaths(node.instance)],
  ]);
  let isReady = false;
  const child = start(program, args, {
    onStderrLine: (line) => {
      isReady ||= line.includes('"msg":"ready"');
    },
  });
  await until(() => isReady, 'an agent');
  return child;
}

function peers(): readonly string[] {
  const map = openPinnedMap(mapPath(node.instance.bpfRoot, 'fl_peer'));
  const { keys, count } = map.readAll();
  map.close();
  return Array.from({ length: count }, (_, at) => keys.subarray(at * 16, at * 16 + 16))
    .map((key) => decodeNodeAddress(key) ?? '')
    .filter((address) => !address.includes(':'))
    .sort();
}

test('a node that has left is not known to the next agent, and one that has come is', async () => {
  const nodes = ['n1', 'n2', 'n3'].map((name, at) => nodeObject(name, at + 1, ['n2', 'n3']));
  await put(...nodes, ...balancerOf('TCP', { forwarding: 'dsr' }, []));
  const first = await startAgent();
  await untilHolds(() => expect(peers()).toEqual(['192.168.77.2', '192.168.77.3']));
  await stop(first);
  await api.change([{ type: 'remove', ref: { kind: 'Node', namespace: '', name: 'n2' } }]);
  await put(nodeObject('n4', 4, []), ...balancerOf('TCP', { forwarding: 'snat' }, []));
  const next = await startAgent();
  await untilHolds(() => expect(peers()).toEqual(['192.168.77.3', '192.168.77.4']));
  await stop(next);
});
