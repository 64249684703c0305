// SPDX-License-Identifier: Apache-2.0
// Layers in the kernel: shared maps, links named by program and device, foreign pins.
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { attachLayer } from '../../../src/engines/bpf/kernel/loader/attach.ts';
import { listPinned, removePinned } from '../../../src/engines/bpf/kernel/loader/cleanup.ts';
import { linkPin, preparePins } from '../../../src/engines/bpf/kernel/loader/pins.ts';
import { packetPrograms } from '../../../src/engines/bpf/kernel/packet/programs.ts';
import {
  ETHERNET_PROGRAMS,
  L3_PROGRAMS,
  type Layer,
  socketLayer,
} from '../../../src/engines/bpf/layer.ts';
import { isPinnedMap, mapPin, parseMapPin } from '../../../src/engines/bpf/layout/versions.ts';
import { openObject, openPinnedLink, openPinnedMap } from '../../../src/sys/native.ts';
import { untilHolds } from '../../support/until.ts';
import { addonPath } from '../native/support/child.ts';
import { makeBpffs, makeCgroup, makeNetns, run } from '../native/support/resources.ts';
import { classifyObject, packetObject, socketObject } from './support/drive.ts';

const HOLDER = { command: 'cleanup', runDir: '/nonexistent' };

function sandbox(): { bpfRoot: string; cgroup: string } {
  const [bpffs, cgroup] = [makeBpffs(), makeCgroup()];
  onTestFinished(() => {
    bpffs.release();
    cgroup.release();
  });
  return { bpfRoot: bpffs.path, cgroup: cgroup.path };
}

const socket = (cgroupRoot: string): Layer =>
  socketLayer(readFileSync(socketObject), {
    cgroupRoot,
    netnsCookie: 5n,
    protectsNodePorts: true,
    socketScope: 'auto' as const,
  });

test('cleanup keeps foreign pins in the same folder', async () => {
  const { bpfRoot, cgroup } = sandbox();
  const attached = await attachLayer({ layer: socket(cgroup), bpfRoot, sizes: {} });
  const others = ['own', 'cilium/own', 'maps/own', 'maps/fl_other', 'links/own', 'v1/maps/fl_sock'];
  for (const path of others) {
    mkdirSync(join(bpfRoot, path, '..'), { recursive: true });
    attached.map('fl_udp_sock').pin(join(bpfRoot, path));
  }
  mkdirSync(join(bpfRoot, 'empty'));
  const link = openPinnedLink(join(bpfRoot, 'links', 'fl_connect4'));
  link.pin(join(bpfRoot, 'cilium', 'fl_connect4'));
  link.close();
  attached.close();
  const removed = removePinned(bpfRoot, HOLDER);
  expect(removed.links).toHaveLength(11);
  expect(removed.maps).toHaveLength(26);
  const left = others.filter((path) => existsSync(join(bpfRoot, path)));
  expect(left).toEqual(others);
  expect(existsSync(join(bpfRoot, 'empty'))).toBe(true);
  expect(existsSync(join(bpfRoot, 'cilium', 'fl_connect4'))).toBe(true);
  expect(listPinned(bpfRoot)).toEqual({ links: [], maps: [] });
});

test('programs that are verified apart share all maps, also with those that are loaded later', async () => {
  const { bpfRoot } = sandbox();
  const object = fileURLToPath(new URL('../../../build/bpf-test/devices.bpf.o', import.meta.url));
  const layer = (programs: readonly string[]): Layer =>
    packetPrograms(readFileSync(object), programs, [{}]);
  const first = await attachLayer({ layer: layer(ETHERNET_PROGRAMS), bpfRoot, sizes: {} });
  expect([...first.programs.keys()].sort()).toEqual(ETHERNET_PROGRAMS.toSorted());
  const { maps } = first;
  const later = await attachLayer({ layer: layer(L3_PROGRAMS), bpfRoot, sizes: {}, maps });
  expect([...later.programs.keys()].sort()).toEqual(L3_PROGRAMS.toSorted());
  expect(maps.get('seen')?.readAll().count).toBe(0);
  for (const program of [...first.programs.values(), ...later.programs.values()]) {
    program.testRun({ dataIn: new Uint8Array(64) });
  }
  expect(maps.get('seen')?.readAll().count).toBe(4);
  later.close();
  first.close();
});

test('what was made can be taken back, but not what was there before', async () => {
  const { bpfRoot, cgroup } = sandbox();
  (await attachLayer({ layer: socket(cgroup), bpfRoot, sizes: {} })).close();
  const before = listPinned(bpfRoot);
  const layer = packetPrograms(readFileSync(packetObject), []);
  const maps = await attachLayer({ layer, bpfRoot, sizes: {} });
  expect(maps.programs.size).toBe(0);
  expect(listPinned(bpfRoot).maps).toContain('maps/fl_ping');
  maps.undo();
  expect(listPinned(bpfRoot)).toEqual(before);
});

test('cleanup does not follow symbolic links out of the folder', async () => {
  const { bpfRoot, cgroup } = sandbox();
  const [one, other] = [join(bpfRoot, 'one'), join(bpfRoot, 'other')];
  mkdirSync(one);
  (await attachLayer({ layer: socket(cgroup), bpfRoot: one, sizes: {} })).close();
  mkdirSync(other);
  symlinkSync(join(one, 'maps'), join(other, 'maps'));
  symlinkSync(join(one, 'links'), join(other, 'links'));
  expect(removePinned(other, HOLDER)).toEqual({ links: [], maps: [] });
  expect(listPinned(one).maps).toHaveLength(26);
  expect(removePinned(one, HOLDER).links).toHaveLength(11);
});

test('every pinned map of the objects has a version', () => {
  for (const path of [socketObject, classifyObject]) {
    const object = openObject(readFileSync(path), { name: 'versions' });
    // Others, such as the ring of new network namespaces, belong to one load of the programs.
    const names = object.maps.filter((name) => name.startsWith('fl_'));
    object.close();
    expect(names.filter((name) => !isPinnedMap(name))).toEqual([]);
  }
});

test.each([
  ['a later version of a map', 'fl_service_v2'],
  ['another map in a later version', 'fl_udp_sock_v17'],
])('%s is refused, and removed by cleanup', async (_name, pin) => {
  const { bpfRoot, cgroup } = sandbox();
  const options = { layer: socket(cgroup), bpfRoot, sizes: {} };
  const attached = await attachLayer(options);
  attached.map('fl_udp_sock').pin(join(bpfRoot, 'maps', pin));
  attached.close();
  await expect(attachLayer(options)).rejects.toMatchObject({
    code: 'OTHER_LAYOUT',
    message: expect.stringContaining(`maps/${pin} has another layout than the`),
  });
  expect(removePinned(bpfRoot, HOLDER).maps).toContain(`maps/${pin}`);
  expect(existsSync(join(bpfRoot, 'maps'))).toBe(false);
});

test('a map pinned by an earlier version is rejected by name', async () => {
  const { bpfRoot, cgroup } = sandbox();
  (await attachLayer({ layer: socket(cgroup), bpfRoot, sizes: {} })).close();
  const object = openObject(readFileSync(socketObject), { name: 'versions' });
  const names = object.maps.filter(isPinnedMap);
  object.close();
  const versions = Object.fromEntries(
    names.map((name) => [name, parseMapPin(mapPin(name))?.version]),
  ) as Parameters<typeof mapPin>[1];
  expect(() => preparePins(bpfRoot, versions)).not.toThrow();
  const later = { ...versions, fl_service: 2 } as typeof versions;
  expect(() => preparePins(bpfRoot, later)).toThrow(/fl_service has another .* fl_service_v2/);
  removePinned(bpfRoot, HOLDER);
});

test('an error about another layout names the fields and the map', async () => {
  const { bpfRoot, cgroup } = sandbox();
  (await attachLayer({ layer: socket(cgroup), bpfRoot, sizes: {} })).close();
  // One map pinned under the name of another: same type, different fields.
  const maps = join(bpfRoot, 'maps');
  const otherMap = openPinnedMap(join(maps, mapPin('fl_backend4')));
  const pin = mapPin('fl_frontend');
  run('rm', join(maps, pin));
  otherMap.pin(join(maps, pin));
  otherMap.close();
  const again = attachLayer({ layer: socket(cgroup), bpfRoot, sizes: {} });
  await expect(again).rejects.toMatchObject({
    code: 'OTHER_SIZES',
    message: expect.stringMatching(/maps\/fl_frontend\w* does not fit map fl_frontend: .*value/),
  });
  removePinned(bpfRoot, HOLDER);
});

test('a failure midway removes what was attached and pinned', async () => {
  const { bpfRoot, cgroup } = sandbox();
  const whole = socket(cgroup);
  const layer = { ...whole, hooks: [...whole.hooks, { ...whole.hooks[0], program: 'fl_missing' }] };
  await expect(attachLayer({ layer: layer as Layer, bpfRoot, sizes: {} })).rejects.toMatchObject({
    code: 'ATTACH_FAILED',
  });
  expect(listPinned(bpfRoot)).toEqual({ links: [], maps: [] });
  // The kernel frees a link that nobody holds any more a moment later.
  await untilHolds(() => expect(run('bpftool', 'cgroup', 'show', cgroup)).not.toContain('fl_'));
});

test('two objects share pinned maps; links are named program@device, dots escaped', () => {
  const { bpfRoot, cgroup } = sandbox();
  const netns = makeNetns();
  onTestFinished(() => netns.release());
  const device = 'v0.100';
  const ip = (...args: string[]): string => run('nsenter', `--net=${netns.path}`, 'ip', ...args);
  ip('link', 'add', device, 'type', 'veth', 'peer', 'name', 'v0.101');
  const [{ ifindex }] = JSON.parse(ip('-json', 'link', 'show', device)) as [{ ifindex: number }];
  const input = { bpfRoot, cgroup, device, ifindex, socketObject, classifyObject };
  const child = fileURLToPath(new URL('./support/layer-child.mjs', import.meta.url));
  const modules = fileURLToPath(
    new URL('../../../build/js/engines/bpf/kernel/loader', import.meta.url),
  );
  const node = [process.execPath, child, modules, addonPath, JSON.stringify(input)];
  const seen = JSON.parse(run('nsenter', `--net=${netns.path}`, ...node));
  const hooks = (isAdopted: boolean) => [
    { name: 'fl_connect4', isAdopted },
    { name: 'fl_classify@v0%2e100', isAdopted },
  ];
  expect(seen.first).toMatchObject({ hooks: hooks(false), services: 16 });
  expect(seen.second).toEqual({ ...seen.first, hooks: hooks(true) });
  expect(seen.pins.maps).toHaveLength(26);
  expect(seen.pins.links.sort()).toEqual(['fl_classify@v0%2e100', 'fl_connect4']);
});

test.each([
  ['fl_x', undefined, 'fl_x'],
  ['fl_x', 'eth0', 'fl_x@eth0'],
  ['fl_x', 'eth0.100', 'fl_x@eth0%2e100'],
  ['fl_x', 'a%2eb', 'fl_x@a%252eb'],
])('link pin of %s on %s', (program, device, name) => {
  expect(linkPin(program, device)).toBe(name);
});
