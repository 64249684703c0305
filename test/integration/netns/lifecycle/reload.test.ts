// SPDX-License-Identifier: Apache-2.0
// Manifests that change while the agent runs, and their effect on connections.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Answer } from '../../../../tools/lab/client/protocol.ts';
import { service, slices, svc, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until, untilHolds } from '../../../support/until.ts';

const web = { n: 10 };
const NAMES = ['web-1', 'web-2', 'web-3'];
let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(NAMES);
  await node.startAgent();
});
beforeEach(async () => {
  node.manifests.put('web.yaml', service('web', web, node.pods('web-1', 'web-2')));
  await expectHits(['web-1', 'web-2']);
});
afterAll(() => node?.remove());

function expectHits(names: readonly string[], spec: { n: number; port?: number } = web) {
  return untilHolds(async () => {
    const { hits, failures } = await node.client().burst(target(spec), { connections: 60 });
    expect({ names: Object.keys(hits).sort(), failures }).toEqual({ names, failures: {} });
  });
}

function expectAnswer(answer: Partial<Answer>, spec: { n: number; port?: number } = web) {
  return untilHolds(async () => {
    expect(await node.client().once(target(spec))).toMatchObject(answer);
  });
}

test('a new backend is used and a removed one is not, without a failed connection', async () => {
  const load = await node.client().startLoad(target(web));
  node.manifests.put('web.yaml', service('web', web, node.pods(...NAMES)));
  await expectHits(NAMES);
  node.manifests.put('web.yaml', service('web', web, node.pods('web-3')));
  await expectHits(['web-3']);
  expect((await load.stop()).failures).toEqual([]);
});

test('an endpoint that becomes unready gets no new connections and keeps its open ones', async () => {
  const [first, second] = node.pods('web-1', 'web-2');
  node.manifests.put('web.yaml', service('web', web, [first!]));
  await expectHits(['web-1']);
  const socket = await node.client().open(target(web));
  const unready = slices('web', [{ pod: first!, isReady: false }, { pod: second! }]);
  node.manifests.put('web.yaml', [svc('web', web), ...unready]);
  await expectHits(['web-2']);
  const peer = { address: target(web).address, port: target(web).port };
  expect(await socket.talk('hello')).toMatchObject({ backend: 'web-1', peer });
  await socket.close();
});

test('an open UDP socket moves to another backend when its own is removed, without losing a datagram', async () => {
  const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;
  node.manifests.put('dns.yaml', service('dns', dns, node.pods('web-1')));
  await expectAnswer({ kind: 'answered', backend: 'web-1' }, dns);
  const socket = await node.client().open(target(dns));
  expect(await socket.talk('first')).toMatchObject({ backend: 'web-1' });
  node.manifests.put('dns.yaml', service('dns', dns, node.pods('web-2')));
  const source = { address: target(dns).address, port: 53 };
  const answers: Answer[] = [];
  await untilHolds(async () => {
    answers.push(await socket.talk(`round ${answers.length}`));
    expect(answers.at(-1)).toMatchObject({ backend: 'web-2' });
  });
  for (const answer of answers) expect(answer).toMatchObject({ kind: 'answered', source });
  await socket.close();
  node.manifests.remove('dns.yaml');
});

test('connections are refused without endpoints and served once there is one again', async () => {
  node.manifests.put('web.yaml', [svc('web', web), ...slices('web', [])]);
  await expectAnswer({ kind: 'failed', code: 'ECONNREFUSED' });
  node.manifests.put('web.yaml', service('web', web, node.pods('web-2')));
  await expectAnswer({ kind: 'answered', backend: 'web-2' });
});

test('slices without their Service, and a Service without slices, arrive in any order', async () => {
  const pods = node.pods('web-1').map((pod) => ({ pod }));
  const late = { n: 40 };
  node.manifests.put('late-slices.yaml', slices('late', pods));
  node.manifests.put('late-service.yaml', [svc('late', late)]);
  await expectAnswer({ kind: 'answered', backend: 'web-1' }, late);
  node.manifests.remove('late-slices.yaml');
  await expectAnswer({ kind: 'failed', code: 'ECONNREFUSED' }, late);
  node.manifests.put('late-slices.yaml', slices('late', pods));
  await expectAnswer({ kind: 'answered', backend: 'web-1' }, late);
  node.manifests.remove('late-service.yaml');
  await expectAnswer({ kind: 'failed', code: 'EHOSTUNREACH' }, late);
  node.manifests.remove('late-slices.yaml');
});

test('a removed Service is no longer translated, and open connections continue', async () => {
  const socket = await node.client().open(target(web));
  node.manifests.remove('web.yaml');
  await expectAnswer({ kind: 'failed', code: 'EHOSTUNREACH' });
  expect(await socket.talk('still here')).toMatchObject({ text: 'still here' });
  await socket.close();
});

test('a Service that changes its port answers only on the new one', async () => {
  const moved = { n: 10, port: 8888 };
  node.manifests.put('web.yaml', service('web', moved, node.pods('web-1')));
  await expectAnswer({ kind: 'answered', backend: 'web-1' }, moved);
  // Removed after the new one is there.
  await expectAnswer({ kind: 'failed' });
});

test('a Service that moves to another file is never interrupted', async () => {
  const load = await node.client().startLoad(target(web));
  const manifests = service('web', web, node.pods('web-1', 'web-2'));
  const goOn = async () => {
    await node.programmed();
    const before = (await load.read()).connections;
    await until(async () => (await load.read()).connections > before + 60, 'more connections');
  };
  node.manifests.put('moved.yaml', manifests);
  node.manifests.remove('web.yaml');
  await goOn();
  node.manifests.put('web.yaml', manifests);
  node.manifests.remove('moved.yaml');
  await goOn();
  expect((await load.stop()).failures).toEqual([]);
});
