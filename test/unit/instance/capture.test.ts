// SPDX-License-Identifier: Apache-2.0
// The agent's part of a capture: every Service in a row of its own, the latest Events, whether they arrived or not.
import { expect, test } from 'vitest';
import { partsOf } from '../../../src/capture/format.ts';
import { capturedInSteps, remembering } from '../../../src/instance/capture.ts';
import type { KubeEvent } from '../../../src/server/events/event.ts';
import { backend, clusterIp, planOf, servicePort } from '../engines/bpf/plans.ts';

const plan = planOf(
  servicePort('a', [clusterIp('10.96.0.1')], [backend('10.1.1.1')]),
  servicePort('b', [clusterIp('10.96.0.2')], [backend('10.1.1.2')]),
);
const rest = { dataplanes: [], addresses: ['192.0.2.1'], findings: [] };

test('a plan is written in a step for each Service, and is one plan again', () => {
  const steps = capturedInSteps(plan, { frontends: [], backends: [] }, rest);
  let count = 0;
  let last = steps.next();
  for (; last.done !== true; last = steps.next()) count += 1;
  expect(count).toBe(2);
  const { plan: whole, addresses } = partsOf(last.value);
  expect(addresses).toEqual(['192.0.2.1']);
  expect(whole).toMatchObject({
    services: {
      $map: [
        ['default/a', {}],
        ['default/b', {}],
      ],
    },
  });
});

test('the latest 100 Events are in it, each once, also those that nobody has taken', async () => {
  const sender = remembering({ post: async () => Promise.reject(new Error('refused')) });
  const eventOf = (n: number, note: string) =>
    ({ metadata: { name: `e${n}`, namespace: 'default' }, note }) as KubeEvent;
  for (let n = 0; n < 120; n += 1) await sender.post(eventOf(n, 'first')).catch(() => undefined);
  await sender.post(eventOf(50, 'again')).catch(() => undefined);
  const { value } = capturedInSteps(undefined, { frontends: [], backends: [] }, rest).next();
  const { events = [] } = partsOf(value ?? []);
  expect(events.length).toBe(100);
  expect(events.at(-1)).toMatchObject({ metadata: { name: 'e50' }, note: 'again' });
  expect(events).not.toContainEqual(
    expect.objectContaining({ note: 'first', metadata: { name: 'e19', namespace: 'default' } }),
  );
});
