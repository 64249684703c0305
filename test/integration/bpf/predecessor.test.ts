// SPDX-License-Identifier: Apache-2.0
// What an agent with another engine sees of an earlier one's maps, in this version's layout and in another one: whether
// it serves, and its live flows, for which its programs stay.
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { elementsIn } from '../../../src/dataplane/bpf/flows/flow-tables.ts';
import { flowTable, flowTables, LEG_MAPS } from '../../../src/dataplane/bpf/flows/kernel.ts';
import { decodeTuple, sideText } from '../../../src/dataplane/bpf/flows/tuple.ts';
import { loadLayer } from '../../../src/dataplane/bpf/loader/load.ts';
import { migrateMaps } from '../../../src/dataplane/bpf/loader/migration/migrate.ts';
import { CARRYING } from '../../../src/dataplane/bpf/loader/migration/policy.ts';
import { pinFolder } from '../../../src/dataplane/bpf/loader/pins.ts';
import { bpfPredecessor } from '../../../src/dataplane/bpf/loader/retire.ts';
import { formerFlows } from '../../../src/dataplane/bpf/loader/retired/former-flows.ts';
import { closeAll } from '../../../src/dataplane/bpf/loader/undo.ts';
import {
  type MapVersions,
  mapPin,
  type PinnedMap,
  parseMapPin,
} from '../../../src/dataplane/bpf/loader/versions.ts';
import { encodeU32, protocolOf } from '../../../src/dataplane/bpf/maps/layout.ts';
import {
  decodeKeptSettings,
  encodePacketSettings,
  NEVER_RESETS,
} from '../../../src/dataplane/bpf/maps/packet-layout.ts';
import { DEFAULT_SETTINGS } from '../../../src/dataplane/bpf/packet/settings.ts';
import { DEFAULT_TIMES, flowTimeouts } from '../../../src/dataplane/bpf/packet/timeouts.ts';
import { type BpfMap, openPinnedMap } from '../../../src/sys/native.ts';
import {
  type FlowFacts,
  legsOf,
  putFlow,
  REPLIED,
  UDP,
} from '../../support/dataplane/flow-bytes.ts';
import { makeBpffs, type TestResource } from '../native/support/resources.ts';
import { mapsObject } from './support/layouts.ts';

/** Look-ups of pins until something happens meanwhile. */
const lookUps = vi.hoisted(() => ({ left: 0, act: (): void => undefined }));
vi.mock('../../../src/dataplane/bpf/loader/pins.ts', async (importActual) => {
  const actual = await importActual<typeof import('../../../src/dataplane/bpf/loader/pins.ts')>();
  const formerPin: typeof actual.formerPin = (...args) => {
    const found = actual.formerPin(...args);
    lookUps.left -= 1;
    if (lookUps.left === 0) lookUps.act();
    return found;
  };
  return { ...actual, formerPin };
});

const HOLDER = { command: 'agent', runDir: '/nonexistent' };
const NAMES = Object.keys(CARRYING) as PinnedMap[];
const raised = (by: number): MapVersions =>
  Object.fromEntries(
    NAMES.map((name) => [name, (parseMapPin(mapPin(name))?.version ?? 1) + by]),
  ) as MapVersions;
const now = (): number => Number(process.hrtime.bigint() / 1_000_000_000n);

let bpffs: TestResource;
let objects: Readonly<Record<'present' | 'other', Uint8Array>>;
let bpfRoot: string;
let count = 0;

beforeAll(() => {
  bpffs = makeBpffs();
  objects = { present: mapsObject('present'), other: mapsObject('other') };
});
afterAll(() => bpffs?.release());
beforeEach(() => {
  count += 1;
  bpfRoot = join(bpffs.path, `root${count}`);
  mkdirSync(pinFolder(bpfRoot).maps, { recursive: true });
});
afterEach(() => rmSync(bpfRoot, { recursive: true, force: true }));

async function migrate(layout: 'present' | 'other'): Promise<void> {
  const layer = { name: 'maps', objects: [{ bytes: objects[layout], rodata: [{}] }], hooks: [] };
  const carry = await migrateMaps({
    ...{ bpfRoot, layers: [layer], sizes: {}, versions: raised(layout === 'other' ? 1 : 0) },
    storage: {
      object: () => {
        throw new Error('this kernel cannot');
      },
      lost: () => undefined,
    },
  });
  await carry.before('sockets');
  await carry.before('flows');
  await carry.linked();
  await carry.after();
}

const withMap = <T>(name: PinnedMap, use: (map: BpfMap) => T): T => {
  const map = openPinnedMap(join(pinFolder(bpfRoot).maps, mapPin(name)));
  try {
    return use(map);
  } finally {
    map.close();
  }
};

/** Maps of this version with three flows that live, and three that do not. */
async function pinFlows(): Promise<void> {
  const layer = {
    ...{ name: 'maps', hooks: [] },
    objects: [{ bytes: objects.present, rodata: [{}] }],
  };
  const options = { folder: pinFolder(bpfRoot), sizes: {}, versions: raised(0) };
  const { maps } = await loadLayer(layer, options, []);
  const flows = flowTables((name) => maps.get(name)!);
  const flow = { frontend: '192.0.2.10:80', backend: '10.1.1.5:8080', seenSeconds: now() };
  const six = { frontend: '[2001:db8::10]:80', backend: '[fd00::5]:8080' };
  putFlow(flows, { ...flow, client: '203.0.113.1:1001', seenSeconds: now() - 5000 });
  putFlow(flows, { ...flow, ...six, client: '[2001:db8::1]:1002' });
  putFlow(flows, { ...flow, client: '203.0.113.1:1003', protocol: UDP });
  putFlow(flows, { ...flow, client: '203.0.113.1:1004', state: 'closed' });
  putFlow(flows, { ...flow, client: '203.0.113.1:1005', state: 'new', seenSeconds: 1 });
  putFlow(flows, { ...flow, client: '203.0.113.1:1006', protocol: UDP, seenSeconds: 1 });
  for (const [port, natFlags] of [
    [40_001, 0],
    [40_002, REPLIED],
  ] as const) {
    const direct = { ...flow, natFlags, state: 'new', seenSeconds: 1 } as const;
    const asking = { ...direct, snat: `10.0.0.1:${port}` };
    putFlow(flows, { ...asking, client: `203.0.113.1:${port}`, protocol: UDP }, 'halfOpen');
    putFlow(flows, { ...asking, client: `203.0.113.2:${port}` }, 'halfOpen');
    putFlow(flows, { ...direct, client: `203.0.113.3:${port}`, protocol: UDP }, 'halfOpen');
  }
  const settings = {
    ...{ ...DEFAULT_SETTINGS, secret: 7n, resetUnknownFrom: 5, nodeAddress: {} },
    ...{ timeoutSeconds: flowTimeouts(DEFAULT_TIMES), resetGone: false, answerPing: false },
    leaveNew: false,
    snatPorts: { first: 61_000, last: 65_535 },
    localPorts: { first: 1, last: 2 },
  };
  maps.get('fl_packet')!.put(encodeU32(0), encodePacketSettings(settings));
  maps.get('fl_frontend4')!.put(new Uint8Array(8).fill(3), encodeU32(1));
  closeAll(maps.values());
  // As a start of that version does: it records the fields.
  await migrate('present');
}

/** UDP flows by the ports of their client, as programs would leave them. */
function keepFlows(flows: Readonly<Record<number, Partial<FlowFacts>>>, tier = ''): void {
  for (const [port, facts] of Object.entries(flows)) {
    const ends = { frontend: '192.0.2.10:53', backend: '10.1.1.9:53' };
    const all = { ...ends, client: `203.0.113.9:${port}`, seenSeconds: now(), ...facts };
    const legs = legsOf({ ...all, protocol: UDP });
    const family = all.client.startsWith('[') ? '6' : '4';
    for (const leg of ['flow', 'nat', 'snat'] as const) {
      if (leg === 'snat' && facts.snat === undefined) continue;
      withMap(`fl_${tier}${leg}${family}` as PinnedMap, (map) => map.put(...legs[leg]));
    }
  }
}

/** Those of clients with such ports that a leg's table has, by either end. */
const keptIn = (table: string, ports: RegExp): string[] =>
  withMap(table as PinnedMap, (map) =>
    [...elementsIn(flowTable(map))].flatMap(({ key }) => {
      const tuple = decodeTuple(key, table.endsWith('4') ? 'IPv4' : 'IPv6');
      const ends = [tuple.source, tuple.destination].map(sideText);
      return ends.filter((end) => ports.test(end));
    }),
  ).sort();

/** Protocol and port of the destination of each leg. */
const halfOpen = (name: 'fl_new_flow4' | 'fl_new_nat4' | 'fl_new_snat4'): string[] =>
  withMap(name, (map) =>
    [...elementsIn(flowTable(map))].map(({ key }) => {
      const { protocol, destination } = decodeTuple(key, 'IPv4');
      return `${protocolOf(protocol)} ${destination.port}`;
    }),
  ).sort();

describe.each(['present', 'other'] as const)('the layout is the %s one', (layout) => {
  test('flows that live are seen once it has ceased to serve', async () => {
    await pinFlows();
    if (layout === 'other') await migrate('other');
    const predecessor = bpfPredecessor(bpfRoot, HOLDER);
    expect(await predecessor.look()).toEqual({
      ...{ isServing: true, isLeft: true, connections: undefined },
    });
    await predecessor.stopServing();
    expect(await predecessor.look()).toEqual({ isServing: false, isLeft: true, connections: 3 });
    if (layout === 'other') await migrate('present');
    expect(halfOpen('fl_new_snat4')).toEqual(['TCP 40001', 'TCP 40002', 'UDP 40001']);
    expect(halfOpen('fl_new_flow4')).toEqual(['TCP 80', 'TCP 80', 'UDP 80', 'UDP 80']);
    expect(halfOpen('fl_new_nat4')).toHaveLength(4);
    const kept = withMap('fl_packet', (map) => decodeKeptSettings(map.get(encodeU32(0))!));
    expect(kept).toEqual({ secret: 7n, resetUnknownFrom: NEVER_RESETS, leaveNew: false });
    await predecessor.remove();
    expect(await predecessor.look()).toEqual({ isServing: false, isLeft: false, connections: 0 });
  });
});

test('UDP flows that are asked and do not answer any more are ended', async () => {
  await pinFlows();
  const predecessor = bpfPredecessor(bpfRoot, HOLDER);
  await predecessor.stopServing();
  const before = { toBackend: [5, 50], toClient: [5, 50] } as const;
  const asked = { ...before, toBackend: [7, 70] } as const;
  const answered = { ...asked, toClient: [6, 60] } as const;
  const snat = '10.0.0.1:40009';
  const ends = { frontend: '[2001:db8::10]:53', backend: '[fd00::9]:53' };
  const six = (port: number) => ({ ...ends, client: `[2001:db8::1]:${port}` });
  keepFlows({
    ...{ 2001: { ...before, snat }, 2002: before, 2003: before, 2004: before, 2005: before },
    ...{ 2006: { toBackend: [1, 10] } },
    ...{ 2007: { ...before, ...six(2007) }, 2008: { ...before, ...six(2008) } },
  });
  keepFlows({ 2009: { toBackend: [1, 10], natFlags: 0, state: 'new' } }, 'new_');
  const ended = predecessor.endUnanswered?.();
  keepFlows({
    2001: { ...asked, snat, seenSeconds: now() + 60 },
    2002: answered,
    2004: { ...before, toBackend: [6, 60], seenSeconds: now() + 60 }, // It may yet be answered.
    2005: { ...before, toBackend: [6, 60] },
    2006: { toBackend: [3, 30] },
    ...{ 2007: { ...asked, ...six(2007) }, 2008: { ...answered, ...six(2008) } },
  });
  keepFlows({ 2009: { toBackend: [3, 30], natFlags: 0, state: 'new' } }, 'new_');
  await ended;
  const ports = /^\[?(?:203\.0\.113\.9|2001:db8::1)\]?:20\d\d$/;
  for (const leg of ['flow', 'nat']) {
    const kept = ['203.0.113.9:2002', '203.0.113.9:2003', '203.0.113.9:2004'];
    expect(keptIn(`fl_${leg}4`, ports)).toEqual(kept);
    expect(keptIn(`fl_${leg}6`, ports)).toEqual(['[2001:db8::1]:2008']);
    expect(keptIn(`fl_new_${leg}4`, ports)).toEqual([]);
  }
  expect(withMap('fl_snat4', (map) => map.readAll().count)).toBe(0);
});

/** Before the last leg is opened, and after it. */
test.each([
  [LEG_MAPS.length, 0],
  [LEG_MAPS.length + 1, 6],
])('another cleanup removes the pins at look-up %i: %i flows are read', async (lookUp, read) => {
  await pinFlows();
  lookUps.left = lookUp;
  lookUps.act = () => rmSync(pinFolder(bpfRoot).maps, { recursive: true });
  const found = [...formerFlows(bpfRoot)].length;
  lookUps.left = 0;
  expect(found).toBeGreaterThanOrEqual(read);
  expect(found > 0).toBe(read > 0);
});

test('fields that are not recorded: it says so, and nothing is removed', async () => {
  await pinFlows();
  await migrate('other');
  rmSync(join(bpfRoot, 'layouts'), { recursive: true });
  const predecessor = bpfPredecessor(bpfRoot, HOLDER);
  await predecessor.stopServing();
  await expect(predecessor.look()).rejects.toMatchObject({
    code: 'OTHER_LAYOUT',
    message: expect.stringContaining('fairlead cleanup'),
  });
});
