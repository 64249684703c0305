// SPDX-License-Identifier: Apache-2.0
// A backend id that is reused: sockets whose records still refer to the old backend must not change the counts of
// the new one.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { BackendRow } from '../../../../src/observe/backend-rows.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { slices, svc, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const WEB = { n: 10 } as const;
type AddressType = 'IPv4' | 'IPv6';

let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(['a']);
  putOnly('IPv4');
  // Room for one backend: the next one gets the same id.
  await node.startAgent(['--map-size', 'backends=1']);
});
afterAll(() => node?.remove());

/** The Service with endpoints of only one family. */
function putOnly(family: AddressType): void {
  const both = slices('web', [{ pod: node.pods('a')[0]! }]);
  const of = both.filter((slice) => slice['addressType'] === family);
  node.manifests.put('web.yaml', [svc('web', WEB), ...of]);
}

async function backends(): Promise<readonly object[]> {
  const args = ['backends', '-o', 'json', '--run-dir', node.instance.runDir];
  const { stdout } = await runCommand(node.instance, args);
  return (JSON.parse(stdout) as { items: BackendRow[] }).items.map(
    ({ id, family, connections, open }) => ({ id, family, connections, open }),
  );
}

test('an id that is reused by the other family starts with new counts', async () => {
  const old = await node.client().open(target(WEB, 'IPv4'));
  const before = { id: 1, family: 'IPv4', connections: 1, open: 1 };
  expect(await backends()).toEqual([before]);
  putOnly('IPv6');
  await untilHolds(async () => {
    const moved = { id: 1, family: 'IPv6', connections: 0, open: 0 };
    expect(await backends()).toEqual([moved]);
  });
  const socket = await node.client().open(target(WEB, 'IPv6'));
  await old.close();
  // The same program closed the old socket before it opened and closed this one.
  expect(await node.client().once(target(WEB, 'IPv6'))).toMatchObject({ kind: 'answered' });
  await untilHolds(async () => {
    const now = { id: 1, family: 'IPv6', connections: 2, open: 1 };
    expect(await backends()).toEqual([now]);
  });
  await socket.close();
});
