// SPDX-License-Identifier: Apache-2.0
// An address of a device that is up is one of the node's: NodePorts answer there as soon as it appears, until it
// goes.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ipBatch } from '../../../../src/sys/netns.ts';
import { service } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until, untilHolds } from '../../../support/until.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;
beforeAll(async () => {
  node = await startOneNode(['web']);
  const [pod] = node.pods('web');
  node.manifests.put('web.yaml', service('web', { n: 10, nodePort: 30080 }, [pod!]));
  await node.startAgent();
});
afterAll(() => node?.remove());

const ip = (...lines: string[]): Promise<void> => ipBatch(lines, node.self.namespace);
const answers = async (address: string): Promise<boolean> => {
  const answer = await node.client().once({ address, port: 30080, protocol: 'TCP' });
  return answer.kind !== 'failed' && answer.backend === 'web';
};
const untilAnswering = (address: string, isAnswering: boolean): Promise<void> =>
  untilHolds(async () => expect(await answers(address)).toBe(isAnswering));

test.each([
  ['IPv4', '10.1.1.99', '10.1.1.99/32'],
  ['IPv6', 'fd00:10:1::99', 'fd00:10:1::99/128'],
])('an %s address that appears and goes', async (_family, address, prefix) => {
  expect(await answers(address)).toBe(false);
  await ip(`addr add ${prefix} dev br0`);
  await untilAnswering(address, true);
  await ip(`addr del ${prefix} dev br0`);
  await untilAnswering(address, false);
});

test('an address of a device counts while the device is up', async () => {
  await ip('link add spare type bridge', 'addr add 10.1.1.98/32 dev spare');
  expect(await answers('10.1.1.98')).toBe(false);
  await ip('link set spare up');
  await untilAnswering('10.1.1.98', true);
  await ip('link set spare name other');
  const isKnown = async (): Promise<boolean> =>
    (await node.status()).devices.some(({ name }) => name === 'other');
  await until(isKnown, 'the new name');
  expect(await answers('10.1.1.98')).toBe(true);
  await ip('link del other');
  await untilAnswering('10.1.1.98', false);
});
