// SPDX-License-Identifier: Apache-2.0
// Which syncs ask for a pass over stale sockets.
import { expect, test } from 'vitest';
import type { BpfParts } from '../../../../../src/engines/bpf/kernel/dataplane.ts';
import { memoryDataplane, memoryTables } from '../../../../support/dataplane/memory-dataplane.ts';
import { backend, clusterIp, planOf, servicePort } from '../plans.ts';

const WEB = 'default/web';
const hostsOf = (hosts: readonly number[]) => hosts.map((host) => backend(`10.1.1.${host}`));
const web = (
  hosts: readonly number[],
  serving: readonly number[] = hosts,
  protocol: 'TCP' | 'UDP' = 'UDP',
) =>
  planOf(
    servicePort('web', [clusterIp('10.96.0.10')], hostsOf(hosts), {
      serving: hostsOf(serving),
      protocol,
    }),
  );

function open(waitGracePeriod = () => Promise.resolve()) {
  const asked = { passes: 0, isClosed: false, isWaiting: false };
  const staleSockets: BpfParts['staleSockets'] = () => ({
    concerns: (protocol) => protocol === 'UDP',
    isWaiting: () => asked.isWaiting,
    request: () => {
      asked.passes += 1;
    },
    state: () => ({
      ...{ way: 'SOCK_DESTROY', limits: [], destroyed: [], left: [] },
      ...{ connected: 0, served: 0, waiting: 0, refused: 0 },
    }),
    close: () => {
      asked.isClosed = true;
    },
  });
  return { asked, dataplane: memoryDataplane(memoryTables(), { staleSockets, waitGracePeriod }) };
}

test('those that made a backend gone, those of all Services, and audits', async () => {
  const { asked, dataplane } = open();
  const passes: number[] = [];
  const sync = async (plan: ReturnType<typeof web>, all = false): Promise<void> => {
    await dataplane.sync(plan, all ? 'all' : [WEB], []);
    passes.push(asked.passes);
  };
  await sync(web([1, 2]), true); // what was there before this agent may be stale
  await sync(web([1, 2, 3]));
  await sync(web([1, 2], [1, 2, 3])); // terminating
  await sync(web([1, 2]));
  await sync(web([1, 2]));
  await dataplane.audit(web([1, 2]), []);
  passes.push(asked.passes);
  await sync(planOf());
  expect(passes).toEqual([1, 1, 1, 2, 2, 3, 4]);
  expect(dataplane.counters().staleSockets?.way).toBe('SOCK_DESTROY');
  dataplane.close();
  expect(asked.isClosed).toBe(true);
});

test('a sync of which only sockets that stay are concerned asks for none', async () => {
  const { asked, dataplane } = open();
  await dataplane.sync(web([1, 2], undefined, 'TCP'), 'all', []);
  await dataplane.sync(web([1], undefined, 'TCP'), [WEB], []);
  expect(asked.passes).toBe(1);
});

test('backends that are released in the middle of their sync, by the wait of an earlier one, ask for one', async () => {
  let isHeld = false;
  let endWait = (): void => undefined;
  const { asked, dataplane } = open(async () => {
    if (isHeld) await new Promise<void>((resolve) => (endWait = resolve));
  });
  const ports = (web: readonly number[], dns: readonly number[], hasOld = true) =>
    planOf(
      servicePort('web', [clusterIp('10.96.0.10')], hostsOf(web)),
      servicePort('dns', [clusterIp('10.96.0.11')], hostsOf(dns), { protocol: 'UDP' }),
      ...(hasOld ? [servicePort('old', [clusterIp('10.96.0.12')], hostsOf([9]))] : []),
    );
  await dataplane.sync(ports([1, 2], [3, 4]), 'all', []);
  isHeld = true;
  await dataplane.sync(ports([1], [3, 4]), [WEB], []);
  expect(asked.passes).toBe(1);
  isHeld = false;
  // Between the batch of what changes and that of what loses a frontend.
  setImmediate(endWait);
  await dataplane.sync(ports([1], [3], false), ['default/dns', 'default/old'], []);
  expect(asked.passes).toBe(2);
});

test('while sockets wait for a backend, each sync asks for one', async () => {
  const { asked, dataplane } = open();
  await dataplane.sync(web([]), 'all', []);
  await dataplane.sync(web([1]), [WEB], []);
  expect(asked.passes).toBe(1);
  asked.isWaiting = true;
  await dataplane.sync(web([1, 2]), [WEB], []);
  expect(asked.passes).toBe(2);
});

test('a dataplane without them counts none', () => {
  expect(memoryDataplane(memoryTables()).counters()).not.toHaveProperty('staleSockets');
});
