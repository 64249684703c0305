// SPDX-License-Identifier: Apache-2.0
// Plans applied to tables in memory, and what can be read back from the tables alone.
import { describe, expect, test } from 'vitest';
import { backendViews, frontendViews } from '../../../../src/engines/bpf/inspect/view.ts';
import {
  BACKEND_STATE,
  decodeBackend,
  decodeFrontend,
  decodeU32,
  type FrontendValue,
} from '../../../../src/engines/bpf/layout/layout.ts';
import { adopt } from '../../../../src/engines/bpf/state/adopt.ts';
import { createTableSync } from '../../../../src/engines/bpf/state/table-sync.ts';
import { element, type Tables } from '../../../../src/engines/bpf/state/tables.ts';
import { frontendText } from '../../../../src/engines/entry.ts';
import { applyAll } from '../../../support/dataplane/apply-all.ts';
import { createMemoryTables, type MemoryTables } from '../../../support/tables/memory.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from './plans.ts';

const SIZES = { frontends: 64, backends: 64, slotBlocks: 32, services: 64 };

/** The content of the tables: frontend -> internal | external backends. */
function read(tables: Tables): Record<string, string> {
  const { ledger } = adopt(tables);
  return Object.fromEntries(
    [...frontendViews(ledger)].map((view) => [
      frontendText(view.id),
      `${view.internal.toSorted().join() || view.internalEmpty} | ${view.external.toSorted().join() || view.externalEmpty}`,
    ]),
  );
}

const frontendOf = (tables: Tables, ref: Uint8Array): FrontendValue =>
  decodeFrontend(element(tables.frontendRecord, decodeU32(ref)));

const frontends = (tables: Tables): readonly FrontendValue[] =>
  tables.frontend.IPv4.readAll().map(({ value }) => frontendOf(tables, value));

const states = (tables: Tables): Record<string, string> =>
  Object.fromEntries([...backendViews(adopt(tables).ledger)].map((v) => [v.backend, v.state]));

function start(sizes = SIZES) {
  const tables = createMemoryTables(sizes);
  return { tables, dataplane: createTableSync(tables, () => Promise.resolve()) };
}

describe('a plan reaches the tables', () => {
  test('a ClusterIP leads to its backends', () => {
    const { tables, dataplane } = start();
    const web = servicePort(
      'web',
      [clusterIp('10.96.0.10')],
      [backend('10.1.1.5'), backend('10.1.1.6')],
    );
    expect(dataplane.apply(planOf(web), ['default/web'])).toMatchObject({ applied: 2, failed: [] });
    expect(read(tables)).toEqual({
      '10.96.0.10:80/TCP': '10.1.1.5:8080,10.1.1.6:8080 | 10.1.1.5:8080,10.1.1.6:8080',
    });
    for (const { rules } of frontends(tables)) expect(rules.pod).toEqual(rules.host);
  });

  test('without backends the verdict of each side is stored', () => {
    const { tables, dataplane } = start();
    const web = servicePort('web', [clusterIp('10.96.0.10'), localNodePort(30080)], []);
    applyAll(dataplane, planOf(web));
    expect(read(tables)).toEqual({
      '10.96.0.10:80/TCP': 'reject | reject',
      '*:30080/TCP': 'reject | drop',
    });
  });

  test('inside and outside clients take different sets, pods the one their rule names', () => {
    for (const hasDetector of [true, false]) {
      const { tables, dataplane } = start();
      const near = backend('10.1.1.5', 8080, true);
      const web = servicePort(
        'web',
        [localNodePort(30080, hasDetector)],
        [near, backend('10.1.2.5')],
        {
          local: [near],
        },
      );
      applyAll(dataplane, planOf(web));
      expect(read(tables)).toEqual({
        '*:30080/TCP': '10.1.1.5:8080,10.1.2.5:8080 | 10.1.1.5:8080',
      });
      const { rules } = frontends(tables)[0]!;
      expect(rules.pod).toEqual(hasDetector ? rules.host : rules.outside);
      expect(rules.unknown).toEqual(rules.host);
    }
  });

  test('IPv6 frontends and backends live in tables of their own', () => {
    const { tables, dataplane } = start();
    const web = servicePort('web', [clusterIp('fd00:96::10')], [backend('fd00:10:1::5')], {
      family: 'IPv6',
    });
    applyAll(dataplane, planOf(web));
    expect(read(tables)).toEqual({
      '[fd00:96::10]:80/TCP': '[fd00:10:1::5]:8080 | [fd00:10:1::5]:8080',
    });
    expect(tables.frontend.IPv4.readAll()).toEqual([]);
  });

  test('the number of NodePorts is stored for the programs', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, planOf(servicePort('web', [localNodePort(30080)], [])));
    expect(tables.runtime.bytes[4]).toBe(1);
    dataplane.apply(planOf(), ['default/web']);
    expect(tables.runtime.bytes[4]).toBe(0);
  });
});

describe('the other ports of a ClusterIP', () => {
  const other = (tables: Tables) =>
    tables.frontend.IPv4.readAll()
      .filter(({ key }) => key[6] === 0)
      .map(({ key, value }) => ({
        address: key.subarray(0, 4).join('.'),
        ...frontendOf(tables, value),
      }));
  const port = (name: string, number: number) => ({
    ...servicePort('web', [clusterIp('10.96.0.10', number)], [backend('10.1.1.5')]),
    key: `default/web:${name}/TCP/IPv4`,
    portName: name,
  });

  test('are rejected by one entry, whichever ports are added and removed', () => {
    const { tables, dataplane } = start();
    for (const ports of [[port('a', 80)], [port('a', 80), port('b', 81)], [port('b', 81)]]) {
      applyAll(dataplane, planOf(...ports));
      expect(other(tables)).toMatchObject([
        { address: '10.96.0.10', rules: { host: { members: 0, whenEmpty: 'reject' } } },
      ]);
    }
    expect(read(tables)).toEqual({ '10.96.0.10:81/TCP': '10.1.1.5:8080 | 10.1.1.5:8080' });
    applyAll(dataplane, planOf());
    expect(other(tables)).toEqual([]);
  });

  test('are not rejected for other kinds of addresses', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, planOf(servicePort('web', [localNodePort(30080)], [])));
    expect(other(tables)).toEqual([]);
  });
});

describe('ranges without frontends', () => {
  /** Numbers of the bits that are 0. */
  const open = ({ notService }: MemoryTables) =>
    [...notService.bytes].flatMap((byte, at) =>
      [...Array(8).keys()].filter((bit) => ((byte >> bit) & 1) === 0).map((bit) => at * 8 + bit),
    );
  const web = (name: string, address: string, family: 'IPv4' | 'IPv6' = 'IPv4') =>
    servicePort(name, [clusterIp(address)], [], { family });
  const at = (a: number, b: number) => a * 256 + b;

  test('are known from the first sync on, and follow the frontends', () => {
    const { tables, dataplane } = start();
    expect(open(tables)).toHaveLength(3 * 65_536);
    applyAll(dataplane, planOf(web('a', '10.96.0.10'), web('b', '10.96.7.7')));
    expect(open(tables)).toEqual([at(10, 96)]);
    dataplane.apply(planOf(web('b', '10.96.7.7'), web('c', '172.20.0.1')), [
      'default/a',
      'default/c',
    ]);
    expect(open(tables)).toEqual([at(10, 96), at(172, 20)]);
    dataplane.apply(planOf(web('c', '172.20.0.1')), ['default/b']);
    expect(open(tables)).toEqual([at(172, 20)]);
    dataplane.apply(planOf(), ['default/c']);
    expect(open(tables)).toEqual([]);
  });

  test('external addresses have ranges, NodePorts their port', () => {
    const { tables, dataplane } = start();
    const external = (name: string, address: string) =>
      servicePort(name, [{ ...clusterIp(address), kind: 'ExternalIP' }], []);
    applyAll(
      dataplane,
      planOf(external('a', '192.0.2.7'), servicePort('b', [localNodePort(30080)], [])),
    );
    expect(open(tables)).toEqual([at(192, 0), 2 * 65_536 + 30_080]);
    dataplane.apply(planOf(external('a', '192.0.2.7')), ['default/b']);
    expect(open(tables)).toEqual([at(192, 0)]);
  });

  test('IPv6: addresses of one /96 share a range', () => {
    const { tables, dataplane } = start();
    const [a, b] = [web('a', 'fd00:96::10', 'IPv6'), web('b', 'fd00:96::abcd:10', 'IPv6')];
    applyAll(dataplane, planOf(a, b));
    expect(open(tables)).toHaveLength(1);
    dataplane.apply(planOf(a, b, web('c', 'fd00:97::10', 'IPv6')), ['default/c']);
    expect(open(tables)).toHaveLength(2);
  });

  test('they stay correct after a failed frontend and one that changes its Service', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, planOf(web('a', '10.96.0.10')));
    tables.fault = (table, key) =>
      table === 'fl_frontend4' && key[0] === 172 ? 'ENOMEM' : undefined;
    dataplane.apply(planOf(web('a', '10.96.0.10'), web('c', '172.20.0.1')), ['default/c']);
    expect(open(tables)).toEqual([at(10, 96)]);
    dataplane.apply(planOf(web('d', '10.96.0.10')), ['default/d', 'default/a']);
    expect(open(tables)).toEqual([at(10, 96)]);
  });

  test('a restarted agent keeps them and adopts those of another', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, planOf(web('a', '10.96.0.10')));
    tables.notService.bytes.fill(0, 0, 9000);
    const again = createTableSync(tables, () => Promise.resolve());
    applyAll(again, planOf(web('a', '10.96.0.10')));
    expect(open(tables)).toEqual([at(10, 96)]);
  });
});

describe('sets are immutable', () => {
  test('a changed set gets new blocks, the old ones keep their content', () => {
    const { tables, dataplane } = start();
    const port = (...list: string[]) =>
      servicePort(
        'web',
        [clusterIp('10.96.0.10')],
        list.map((a) => backend(a)),
      );
    applyAll(dataplane, planOf(port('10.1.1.5', '10.1.1.6')));
    const before = frontends(tables)[0]!.rules.host;
    const block = element(tables.slotBlock, before.block).slice();
    dataplane.apply(planOf(port('10.1.1.6')), ['default/web']);
    const after = frontends(tables)[0]!.rules.host;
    expect(after).not.toEqual(before);
    expect(element(tables.slotBlock, before.block)).toEqual(block);
  });

  test('retired blocks and ids are not reused before their release', async () => {
    const { tables, dataplane } = start({ ...SIZES, slotBlocks: 2 });
    const port = (address: string) =>
      servicePort('web', [clusterIp('10.96.0.10')], [backend(address)]);
    applyAll(dataplane, planOf(port('10.1.1.1')));
    applyAll(dataplane, planOf(port('10.1.1.2')));
    expect(applyAll(dataplane, planOf(port('10.1.1.3'))).failed[0]?.reason).toContain(
      'fl_slot_block is full',
    );
    expect(read(tables)['10.96.0.10:80/TCP']).toContain('10.1.1.2');
    await dataplane.releaseRetired();
    expect(applyAll(dataplane, planOf(port('10.1.1.3'))).failed).toEqual([]);
    expect(read(tables)['10.96.0.10:80/TCP']).toContain('10.1.1.3');
  });

  test('spare slots of a reused block are zero', async () => {
    const { tables, dataplane } = start({ ...SIZES, slotBlocks: 1 });
    const port = (...list: string[]) =>
      servicePort(
        'web',
        [clusterIp('10.96.0.10')],
        list.map((a) => backend(a)),
      );
    applyAll(dataplane, planOf(port('10.1.1.5', '10.1.1.6', '10.1.1.7')));
    applyAll(dataplane, planOf());
    await dataplane.releaseRetired();
    applyAll(dataplane, planOf(port('10.1.1.5')));
    // The service id and one member.
    expect(element(tables.slotBlock, 0).filter((byte) => byte !== 0)).toHaveLength(2);
  });

  test('retired blocks and ids are released only after the grace period', async () => {
    const tables = createMemoryTables({ ...SIZES, slotBlocks: 1 });
    let end: () => void = () => undefined;
    const waiting = new Promise<void>((resolve) => {
      end = resolve;
    });
    const dataplane = createTableSync(tables, () => waiting);
    const web = servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.5')]);
    applyAll(dataplane, planOf(web));
    applyAll(dataplane, planOf());
    const released = dataplane.releaseRetired();
    expect(dataplane.ledger.blocks.used()).toBe(1);
    end();
    expect(await released).toBe(true);
    expect(dataplane.ledger.blocks.used()).toBe(0);
    expect(await dataplane.releaseRetired()).toBe(false);
  });

  test('what is retired during a wait is released after the next wait', async () => {
    const tables = createMemoryTables(SIZES);
    const ends: (() => void)[] = [];
    const dataplane = createTableSync(
      tables,
      () => new Promise<void>((resolve) => void ends.push(resolve)),
    );
    const port = (address: string) =>
      servicePort('web', [clusterIp('10.96.0.10')], [backend(address)]);
    applyAll(dataplane, planOf(port('10.1.1.1')));
    applyAll(dataplane, planOf(port('10.1.1.2')));
    const released = dataplane.releaseRetired();
    applyAll(dataplane, planOf(port('10.1.1.3')));
    expect(dataplane.releaseRetired()).toBe(released);
    ends[0]?.();
    await expect.poll(() => ends.length).toBe(2);
    expect(dataplane.ledger.blocks.used()).toBe(2);
    ends[1]?.();
    await released;
    expect(dataplane.ledger.blocks.used()).toBe(1);
  });

  test('an unchanged plan writes nothing', () => {
    const { tables, dataplane } = start();
    const plan = planOf(servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.5')]));
    applyAll(dataplane, plan);
    tables.fault = () => 'EIO';
    expect(applyAll(dataplane, plan)).toMatchObject({ applied: 0, failed: [] });
  });
});

describe('backends that leave', () => {
  const plan = (ready: readonly string[], serving = ready) =>
    planOf(
      servicePort(
        'dns',
        [clusterIp('10.96.0.53', 53)],
        ready.map((a) => backend(a, 53)),
        {
          protocol: 'UDP',
          serving: serving.map((a) => backend(a, 53)),
        },
      ),
    );

  test('stay TERMINATING while they serve, are then removed, and can be added again', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, plan(['10.1.1.5', '10.1.1.6']));
    applyAll(dataplane, plan(['10.1.1.6'], ['10.1.1.5', '10.1.1.6']));
    expect(states(tables)).toEqual({ '10.1.1.5:53': 'terminating', '10.1.1.6:53': 'active' });
    applyAll(dataplane, plan(['10.1.1.5', '10.1.1.6']));
    expect(states(tables)).toEqual({ '10.1.1.5:53': 'active', '10.1.1.6:53': 'active' });
    applyAll(dataplane, plan(['10.1.1.6']));
    expect(states(tables)).toEqual({ '10.1.1.6:53': 'active' });
    expect(decodeBackend(element(tables.backend.IPv4, 1), 'IPv4').state).toBe(BACKEND_STATE.GONE);
  });

  test('have their id reused only with a new generation and cleared counters', async () => {
    const { tables, dataplane } = start({ ...SIZES, backends: 2 });
    applyAll(dataplane, plan(['10.1.1.5']));
    element(tables.backendStat, 1).fill(9);
    const before = decodeBackend(element(tables.backend.IPv4, 1), 'IPv4');
    applyAll(dataplane, plan([]));
    await dataplane.releaseRetired();
    applyAll(dataplane, plan(['10.1.1.7']));
    const after = decodeBackend(element(tables.backend.IPv4, 1), 'IPv4');
    expect(after).toMatchObject({ address: '10.1.1.7', generation: before.generation + 1 });
    expect([...element(tables.backendStat, 1)].every((byte) => byte === 0)).toBe(true);
  });
});

describe('a failure never affects another Service', () => {
  test('a full frontend table: old state stays, the reason names table and Service, and it recovers once there is room', () => {
    const { tables, dataplane } = start({ ...SIZES, frontends: 4 });
    const a = servicePort('a', [clusterIp('10.96.0.1')], [backend('10.1.1.1')]);
    const b = servicePort('b', [clusterIp('10.96.0.2')], [backend('10.1.1.2')]);
    applyAll(dataplane, planOf(a));
    const full = applyAll(dataplane, planOf(a, b));
    expect(full.failed).toEqual([expect.objectContaining({ service: 'default/b' })]);
    expect(full.failed[0]?.reason).toMatch(/fl_fe_stat is full|fl_frontend4 is full/);
    expect(Object.keys(read(tables))).toEqual(['10.96.0.1:80/TCP']);
  });

  test('a failed frontend is retried and leaks no id', async () => {
    const { tables, dataplane } = start();
    const web = servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.5')]);
    tables.fault = (table) => (table === 'fl_frontend4' ? 'ENOMEM' : undefined);
    for (let round = 0; round < 200; round++) {
      expect(applyAll(dataplane, planOf(web)).failed).toHaveLength(2);
      await dataplane.releaseRetired();
    }
    tables.fault = () => undefined;
    expect(applyAll(dataplane, planOf(web)).failed).toEqual([]);
    expect(Object.keys(read(tables))).toEqual(['10.96.0.10:80/TCP']);
    expect(dataplane.ledger.frontendIds.used()).toBe(2);
    expect(dataplane.ledger.backendIds.used()).toBe(1);
    expect(dataplane.ledger.blocks.used()).toBe(1);
  });

  test('a change of a known frontend makes no call that could fail', async () => {
    const { tables, dataplane } = start();
    const port = (address: string) =>
      servicePort('web', [clusterIp('10.96.0.10')], [backend(address)]);
    applyAll(dataplane, planOf(port('10.1.1.5')));
    const refs = tables.frontend.IPv4.readAll();
    tables.fault = () => 'ENOMEM';
    expect(applyAll(dataplane, planOf(port('10.1.1.6'))).failed).toEqual([]);
    await dataplane.releaseRetired();
    expect(read(tables)['10.96.0.10:80/TCP']).toContain('10.1.1.6:8080');
    expect(tables.frontend.IPv4.readAll()).toEqual(refs);
  });

  test('a frontend that moves to another Service keeps its id and is never deleted', () => {
    const { tables, dataplane } = start();
    const a = servicePort('a', [clusterIp('10.96.0.1')], [backend('10.1.1.1')]);
    const b = servicePort('b', [clusterIp('10.96.0.1')], [backend('10.1.1.2')]);
    applyAll(dataplane, planOf(a));
    const refs = tables.frontend.IPv4.readAll();
    dataplane.apply(planOf(b), ['default/b', 'default/a']);
    expect(tables.frontend.IPv4.readAll()).toEqual(refs);
    expect(read(tables)).toEqual({ '10.96.0.1:80/TCP': '10.1.1.2:8080 | 10.1.1.2:8080' });
    expect(states(tables)).toEqual({ '10.1.1.2:8080': 'active' });
  });
});

describe('restart and audit', () => {
  const plan = planOf(
    servicePort(
      'web',
      [clusterIp('10.96.0.10'), localNodePort(30080)],
      [backend('10.1.1.5'), backend('10.1.1.6')],
      {
        local: [backend('10.1.1.5', 8080, true)],
      },
    ),
    servicePort('web6', [clusterIp('fd00:96::10')], [backend('fd00:10:1::5')], { family: 'IPv6' }),
  );

  test('a new agent adopts ids and sets and writes nothing', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, plan);
    tables.fault = () => 'EIO';
    const again = createTableSync(tables, () => Promise.resolve());
    expect(applyAll(again, plan)).toMatchObject({ applied: 0, failed: [] });
    expect(again.ledger.backendIds.used()).toBe(dataplane.ledger.backendIds.used());
    expect(again.ledger.nodePorts).toBe(1);
  });

  test('Services deleted while no agent was running are removed by the initial sync', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, plan);
    const again = createTableSync(tables, () => Promise.resolve());
    applyAll(again, planOf());
    expect(read(tables)).toEqual({});
    expect(tables.serviceName.readAll()).toEqual([]);
  });

  test('a frontend of a service id without a name is stray: dropped unless the plan has it', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, plan);
    tables.serviceName.delete(tables.serviceName.readAll().map(({ key }) => key));
    const again = createTableSync(tables, () => Promise.resolve());
    applyAll(again, planOf(servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.9')])));
    expect(read(tables)).toEqual({ '10.96.0.10:80/TCP': '10.1.1.9:8080 | 10.1.1.9:8080' });
  });

  test('backends of an agent that died before it named their Service are never adopted', () => {
    const { tables, dataplane } = start();
    const web = servicePort(
      'web',
      [clusterIp('10.96.0.10')],
      [backend('10.1.1.5'), backend('10.1.1.7')],
    );
    applyAll(dataplane, planOf(web));
    // As if it had died before step 2: no name, no frontend.
    tables.serviceName.delete(tables.serviceName.readAll().map(({ key }) => key));
    tables.frontend.IPv4.delete(tables.frontend.IPv4.readAll().map(({ key }) => key));
    const again = createTableSync(tables, () => Promise.resolve());
    const other = servicePort('other', [clusterIp('10.96.0.11')], [backend('10.1.1.6')]);
    applyAll(again, planOf(other));
    const [reused] = again.ledger.services.get('default/other')!.values();
    expect(reused!.serviceId).toBe(1);
    expect(states(tables)).toEqual({ '10.1.1.6:8080': 'active' });
  });

  const damage: readonly { name: string; break: (tables: MemoryTables) => void; drift: RegExp }[] =
    [
      {
        name: 'a frontend deleted by hand',
        break: (t) => void t.frontend.IPv4.delete([t.frontend.IPv4.readAll()[0]!.key]),
        drift: /frontend .* is missing/,
      },
      {
        name: 'a frontend overwritten',
        break: (t) =>
          void t.frontend.IPv4.put([t.frontend.IPv4.readAll()[0]!.key], [new Uint8Array(4)]),
        drift: /frontend .* differs/,
      },
      {
        name: 'a set overwritten',
        break: (t) => void t.slotBlock.bytes.fill(7),
        drift: /set at block .* differs/,
      },
      {
        name: 'a backend overwritten',
        break: (t) => void t.backend.IPv4.bytes.fill(1, 16, 20),
        drift: /backend .* differs/,
      },
      {
        name: 'a service name deleted',
        break: (t) => void t.serviceName.delete([t.serviceName.readAll()[0]!.key]),
        drift: /name of service id .* is missing/,
      },
      {
        name: 'an unwanted frontend',
        break: (t) =>
          void t.frontend.IPv4.put([Uint8Array.of(1, 2, 3, 4, 80, 0, 6, 0)], [new Uint8Array(4)]),
        drift: /belongs to no Service/,
      },
    ];
  test.each(damage)('audit finds and repairs $name', async ({ break: breakIt, drift }) => {
    const { tables, dataplane } = start();
    applyAll(dataplane, plan);
    const healthy = read(tables);
    breakIt(tables);
    const found = [...dataplane.findDrift()].flat().map(({ text }) => text);
    applyAll(dataplane, plan);
    expect(found.join('\n')).toMatch(drift);
    await dataplane.releaseRetired();
    expect(read(tables)).toEqual(healthy);
    expect([...dataplane.findDrift()].flat()).toEqual([]);
  });
});
