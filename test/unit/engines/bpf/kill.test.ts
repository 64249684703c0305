// SPDX-License-Identifier: Apache-2.0
// An agent that is killed between any two writes. For every n: stop at the nth write, check what sockets would get,
// start another agent on the same tables, and check again.
import { describe, expect, test } from 'vitest';
import {
  BACKEND_STATE,
  decodeBackend,
  decodeFrontend,
  decodeU32,
  encodeFrontendKey,
  NODE_PORTS_OFFSET,
  RANGES_PER_WORD,
  type SetRef,
} from '../../../../src/engines/bpf/layout/layout.ts';
import { rangeOf } from '../../../../src/engines/bpf/rows/satellites/service-ranges.ts';
import { readRun } from '../../../../src/engines/bpf/rows/service-port/runs.ts';
import { createTableSync } from '../../../../src/engines/bpf/state/table-sync.ts';
import { element, type Tables } from '../../../../src/engines/bpf/state/tables.ts';
import { frontendText } from '../../../../src/engines/entry.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import { applyAll } from '../../../support/dataplane/apply-all.ts';
import { applyKilledAt, killableTables } from '../../../support/dataplane/killable-tables.ts';
import { createMemoryTables } from '../../../support/tables/memory.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from './plans.ts';

const SIZES = { frontends: 64, backends: 64, slotBlocks: 32, services: 16 };

const backends = (...hosts: number[]) => hosts.map((host) => backend(`10.1.1.${host}`, 8080, true));

/** The members of a set as programs find them; throws for any state that no socket may see. */
function members(tables: Tables, ref: SetRef): string {
  if (ref.members === 0) return '';
  const [serviceId, ...ids] = readRun(tables.slotBlock, ref.block, ref.members);
  const named = tables.serviceName.readAll().map(({ key }) => decodeU32(key));
  if (!named.includes(serviceId ?? 0)) throw new Error(`service id ${serviceId} has no name`);
  const found = ids.map((id) => {
    const value = decodeBackend(element(tables.backend.IPv4, id), 'IPv4');
    if (value.serviceId !== serviceId || value.state !== BACKEND_STATE.ACTIVE) {
      throw new Error(`a set leads to ${JSON.stringify(value)}`);
    }
    return `${value.address}:${value.port}`;
  });
  return found.sort().join();
}

/** Whether sockets take it that there is no frontend in this range. */
function isPassedOver({ notService }: Tables, key: Uint8Array): boolean {
  const range = rangeOf(key);
  const word = Math.floor(range / RANGES_PER_WORD);
  const bits = notService.view(word).getBigUint64(notService.offset(word), true);
  return ((bits >> BigInt(range % RANGES_PER_WORD)) & 1n) === 1n;
}

/** frontend -> its backends, for every frontend a socket can find. */
function met(tables: Tables): Readonly<Record<string, string>> {
  const { runtime } = tables;
  const nodePorts = runtime.view(0).getUint32(runtime.offset(0) + NODE_PORTS_OFFSET, true);
  const rows = tables.frontend.IPv4.readAll().map(({ key, value }) => {
    const record = decodeFrontend(element(tables.frontendRecord, decodeU32(value)));
    expect(encodeFrontendKey(record.key)).toEqual(key);
    if (record.key.address === undefined && nodePorts === 0)
      throw new Error('no socket looks for it');
    if (isPassedOver(tables, key)) throw new Error('no socket looks for a frontend there');
    return [frontendText(record.key), members(tables, record.rules.host)];
  });
  return Object.fromEntries(rows);
}

interface Story {
  readonly what: string;
  readonly before: Plan;
  readonly after: Plan;
}

const web = (frontends: Parameters<typeof servicePort>[1], ...hosts: number[]) =>
  servicePort('web', frontends, backends(...hosts), { local: backends(...hosts) });
const cluster = clusterIp('10.96.0.10');
const other = servicePort('other', [clusterIp('10.96.0.20')], backends(30, 31));

const STORIES: readonly Story[] = [
  { what: 'a Service comes', before: planOf(other), after: planOf(other, web([cluster], 1, 2)) },
  {
    what: 'the first ClusterIP of a range comes',
    before: planOf(other),
    after: planOf(other, web([clusterIp('172.20.0.10')], 1, 2)),
  },
  {
    what: 'the last ClusterIP of a range goes',
    before: planOf(other, web([clusterIp('172.20.0.10')], 1, 2)),
    after: planOf(other),
  },
  {
    what: 'the first NodePort comes',
    before: planOf(other),
    after: planOf(other, web([cluster, localNodePort(30080)], 1, 2)),
  },
  {
    what: 'the last NodePort goes',
    before: planOf(web([cluster, localNodePort(30080)], 1, 2)),
    after: planOf(web([cluster], 1, 2)),
  },
  {
    what: 'backends come and go',
    before: planOf(web([cluster], 1, 2, 3)),
    after: planOf(web([cluster], 2, 3, 4, 5)),
  },
  {
    what: 'all backends are replaced',
    before: planOf(web([cluster], 1, 2, 3)),
    after: planOf(web([cluster], 11, 12)),
  },
  {
    what: 'a Service goes',
    before: planOf(other, web([cluster], 1, 2)),
    after: planOf(other),
  },
  {
    what: 'one goes, another takes its address',
    before: planOf(web([cluster], 1, 2)),
    after: planOf(servicePort('next', [cluster], backends(8, 9))),
  },
];

const start = (tables: Tables) => createTableSync(tables, () => Promise.resolve());

async function programmed(plan: Plan): Promise<Tables> {
  const tables = createMemoryTables(SIZES);
  const sync = start(tables);
  applyAll(sync, plan);
  await sync.releaseRetired();
  return tables;
}

/** A frontend of both plans leads to the one's backends or the other's; one of neither is not there. */
function assertBetween(tables: Tables, before: object, after: object): void {
  const [old, wanted] = [Object.entries(before), Object.entries(after)];
  const now = Object.entries(met(tables));
  for (const row of now) expect([...old, ...wanted]).toContainEqual(row);
  const found = new Set(now.map(([frontend]) => frontend));
  for (const [frontend] of old) {
    if (wanted.some(([other]) => other === frontend)) expect(found).toContain(frontend);
  }
}

/** Ids and blocks that are taken, once everything freed has been released. */
async function taken(sync: ReturnType<typeof start>): Promise<readonly number[]> {
  await sync.releaseRetired();
  const { backendIds, frontendIds, serviceIds, blocks } = sync.ledger;
  return [backendIds.used(), frontendIds.used(), serviceIds.used(), blocks.used()];
}

describe.each(STORIES)('killed at any write: $what', ({ before, after }) => {
  test('sockets get the old or the new state, and the next agent completes the change', async () => {
    const [old, wanted] = [met(await programmed(before)), met(await programmed(after))];
    const fresh = await taken(start(await programmed(after)));
    let nth = 0;
    for (let isDone = false; !isDone; ) {
      nth++;
      const killable = killableTables(await programmed(before));
      const { tables } = killable;
      const dying = start(tables);
      isDone = await applyKilledAt(nth, killable, dying, after);
      assertBetween(tables, old, wanted);
      const next = start(tables);
      expect(applyAll(next, after).failed, `killed at write ${nth}`).toEqual([]);
      expect(met(tables)).toEqual(wanted);
      expect(await taken(next), `killed at write ${nth}`).toEqual(fresh);
    }
    expect(nth).toBeGreaterThan(2);
  });
});
