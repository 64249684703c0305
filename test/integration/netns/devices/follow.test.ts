// SPDX-License-Identifier: Apache-2.0
// Programs on real devices: attached when a device appears, kept when it is renamed, detached when it is no longer
// chosen; after a restart they are replaced in place.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { DeviceView } from '../../../../src/engines/snapshot.ts';
import {
  DEVICES_OBJECT,
  makeNamespace,
  type State,
  type TestNamespace,
} from './support/namespace.ts';

let namespace: TestNamespace;
beforeEach(async () => {
  namespace = makeNamespace();
  await namespace.ip('link del v0');
});
afterEach(() => namespace.release());

const isAttached =
  (name: string) =>
  ({ devices }: State): boolean =>
    devices.some((device) => device.name === name && device.isAttached);
const find = ({ devices }: State, name: string): DeviceView | undefined =>
  devices.find((device) => device.name === name);
const VETH = ['link add v0 type veth peer name v1', 'link set v0 up', 'link set v1 up'];

describe('a device', () => {
  test('gets programs when it appears and is up; packets go through them', async () => {
    const follower = await namespace.follow();
    expect(follower.state().pins).toEqual([]);
    await namespace.ip('link add v0 type veth peer name v1');
    await follower.until('v0 to be known', (state) => find(state, 'v0')?.reason === 'it is down');
    await namespace.ip('addr add 192.0.2.1/24 dev v0', 'link set v1 up', 'link set v0 up');
    const state = await follower.until(
      'v0',
      (now) => isAttached('v0')(now) && isAttached('v1')(now),
    );
    expect(state.pins).toEqual(['fl_egress@v0', 'fl_egress@v1', 'fl_ingress@v0', 'fl_ingress@v1']);
    expect(find(state, 'v0')).toMatchObject({
      kind: 'veth',
      role: 'uplink',
      ingress: ['fl_ingress'],
      egress: ['fl_egress'],
      snat: { IPv4: '192.0.2.1' },
    });
    expect(state.table).toContainEqual({
      ifindex: find(state, 'v0')?.ifindex,
      isPod: false,
      leadsToPod: false,
      takesFrames: false,
      dropsOthers: true,
      isUplink: true,
      isTunnel: false,
      snat: { IPv4: '192.0.2.1' },
    });
    await namespace.run('ping', '-c1', '-W1', '-b', '-I', 'v0', '192.0.2.255').catch(() => '');
    await follower.until('packets', ({ seen }) => (seen['fl_egress@v0'] ?? 0) > 0);
    await follower.until('packets', ({ seen }) => (seen['fl_ingress@v1'] ?? 0) > 0);
  });

  test('keeps its programs when it is renamed, also if two exchange their names', async () => {
    await namespace.ip(...VETH, 'link set v0 name eth0.100');
    const follower = await namespace.follow();
    const before = find(follower.state(), 'eth0.100');
    const links = await namespace.attachedTo('eth0.100');
    await namespace.ip(
      'link set eth0.100 name between',
      'link set v1 name eth0.100',
      'link set between name v1',
    );
    const state = await follower.until('v1', (now) => find(now, 'v1')?.ifindex === before?.ifindex);
    expect(state.pins).toEqual([
      'fl_egress@eth0%2e100',
      'fl_egress@v1',
      'fl_ingress@eth0%2e100',
      'fl_ingress@v1',
    ]);
    expect(state.devices.filter((one) => one.isAttached)).toHaveLength(2);
    expect(await namespace.attachedTo('v1')).toEqual(links);
  });

  test('loses its programs under a bridge, and gets them back', async () => {
    await namespace.ip(...VETH, 'link add br0 type bridge', 'link set br0 up');
    const follower = await namespace.follow();
    await namespace.ip('link set v0 master br0');
    const state = await follower.until('v0 to be a port', (now) => !isAttached('v0')(now));
    expect(find(state, 'v0')?.reason).toBe('it is a port of bridge br0, which is used instead');
    expect(state.pins).toEqual([
      'fl_egress@br0',
      'fl_egress@v1',
      'fl_ingress@br0',
      'fl_ingress@v1',
    ]);
    expect(find(state, 'v0')).toMatchObject({ ingress: [], egress: [] });
    await namespace.ip('link set v0 nomaster');
    await follower.until('v0 to be free', isAttached('v0'));
  });

  test('that leads to a pod keeps them there, for frames to the bridge too', async () => {
    const other = makeNamespace();
    try {
      await namespace.ip(...VETH, 'link add br0 type bridge', 'link set br0 up');
      await other.ip('link del v0');
      await namespace.ip(`link set v1 netns ${other.name}`);
      await other.ip('link set v1 up');
      const follower = await namespace.follow();
      const untilDropping = (dropsOthers: boolean): Promise<State> =>
        follower.until(`dropsOthers ${dropsOthers}`, (state) => {
          const ifindex = find(state, 'v0')?.ifindex;
          const entry = state.table.find((one) => one.ifindex === ifindex);
          return isAttached('v0')(state) && entry?.dropsOthers === dropsOthers;
        });
      await untilDropping(true);
      await namespace.ip('link set v0 master br0');
      await untilDropping(false);
      await namespace.ip('link set v0 nomaster');
      await untilDropping(true);
    } finally {
      await other.release();
    }
  });

  test('that goes leaves nothing behind; another of its name is served', async () => {
    await namespace.ip(...VETH);
    const follower = await namespace.follow();
    const before = find(follower.state(), 'v0')?.ifindex;
    await namespace.ip('link del v0', ...VETH);
    const state = await follower.until(
      'the new v0',
      (now) =>
        find(now, 'v0')?.ifindex !== before && isAttached('v0')(now) && isAttached('v1')(now),
    );
    expect(state.pins).toHaveLength(4);
    expect(state.table.map(({ ifindex }) => ifindex)).not.toContain(before);
    await namespace.ip('link del v0');
    expect((await follower.until('nothing', ({ pins }) => pins.length === 0)).table).toEqual([]);
  });

  test('that moves to a pod’s namespace takes no programs along', async () => {
    const other = makeNamespace();
    try {
      await namespace.ip(...VETH);
      const follower = await namespace.follow();
      await other.ip('link del v0');
      await namespace.ip(`link set v1 netns ${other.name}`);
      await follower.until('v1 to be gone', ({ pins }) => !pins.includes('fl_ingress@v1'));
      await other.ip('link set v1 up');
      expect(await other.attachedTo('v1')).toEqual([]);
      await follower.until('v0 to be a pod’s', (now) => find(now, 'v0')?.role === 'pod');
      await namespace.ip('link set v0 up');
      const state = await follower.until('v0', isAttached('v0'));
      expect(find(state, 'v0')?.reason).toBe(
        'its peer is in another network namespace, as that of a pod',
      );
      expect(state.table).toMatchObject([{ isPod: false }]);
    } finally {
      await other.release();
    }
  });

  test('with tunnels: VXLAN has Ethernet headers, tun has none', async () => {
    await namespace.ip(
      'link add vx0 type vxlan id 1 dstport 4789 local 127.0.0.1',
      'tuntap add tun0 mode tun',
      'tuntap add tap0 mode tap',
      'link set vx0 up',
      'link set tun0 up',
      'link set tap0 up',
    );
    const { devices } = (await namespace.follow()).state();
    const rows = devices.map(({ name, role, ingress }) => [name, role, ...ingress]);
    expect(rows).toEqual([
      ['lo', 'uplink'],
      ['tap0', 'pod', 'fl_ingress'],
      ['tun0', 'tunnel', 'fl_ingress_l3'],
      ['vx0', 'tunnel', 'fl_ingress'],
    ]);
  });
});

describe.each([false, true])('forced to clsact: %s', (forceClsact) => {
  const shown = (name: string): string => (forceClsact ? `${name} (clsact, priority ` : name);

  test('a killed agent leaves its programs; the next one replaces them in place', async () => {
    await namespace.ip(...VETH);
    const first = await namespace.follow({ forceClsact });
    expect(first.state().pins).toHaveLength(4);
    const links = await namespace.attachedTo('v0');
    expect(links).toHaveLength(2);
    await first.kill();
    await namespace.ip('link set v1 name uplink', 'link add br0 type bridge', 'link set br0 up');
    const second = await namespace.follow({ forceClsact });
    const state = second.state();
    expect(state.log[0]).toMatch(/devices attached \{"devices":3,"adopted":2\}/);
    expect(state.pins).toEqual([
      'fl_egress@br0',
      'fl_egress@uplink',
      'fl_egress@v0',
      'fl_ingress@br0',
      'fl_ingress@uplink',
      'fl_ingress@v0',
    ]);
    expect(find(state, 'uplink')?.ingress).toEqual([expect.stringContaining(shown('fl_ingress'))]);
    expect(await namespace.attachedTo('v0')).toEqual(links);
    // The second process's own programs count.
    await namespace.ip('addr add 192.0.2.1/24 dev v0');
    await namespace.run('ping', '-c1', '-W1', '-b', '-I', 'v0', '192.0.2.255').catch(() => '');
    await second.until('packets', ({ seen }) => (seen['fl_egress@v0'] ?? 0) > 0);
  });

  test('what is on devices that went, or are no longer chosen, is removed by the next agent', async () => {
    await namespace.ip(...VETH, 'link add br0 type bridge', 'link set br0 up');
    await (await namespace.follow({ forceClsact })).kill();
    await namespace.ip('link del br0', 'link add br0 type bridge', 'link set br0 up');
    const second = await namespace.follow({ forceClsact, patterns: ['!v0'] });
    expect(second.state().pins).toEqual([
      'fl_egress@br0',
      'fl_egress@v1',
      'fl_ingress@br0',
      'fl_ingress@v1',
    ]);
    expect(await namespace.attachedTo('v0')).toEqual([]);
    expect(await namespace.attachedTo('br0')).toHaveLength(2);
  });

  test('what somebody else removes is attached again', async () => {
    await namespace.ip(...VETH);
    const follower = await namespace.follow({ forceClsact });
    if (forceClsact) await namespace.run('tc', 'qdisc', 'del', 'dev', 'v0', 'clsact');
    else
      await namespace.run(
        'sh',
        '-c',
        `bpftool link detach pinned ${namespace.bpffs.path}/links/fl_ingress@v0 && bpftool link detach pinned ${namespace.bpffs.path}/links/fl_egress@v0`,
      );
    expect(await namespace.attachedTo('v0')).toEqual([]);
    expect((await follower.ask('repair')).repaired).toEqual(['v0']);
    expect(await namespace.attachedTo('v0')).toHaveLength(2);
    expect((await follower.ask('repair')).repaired).toEqual([]);
  });
});

test('another instance’s clsact filter is not replaced: the device fails, others are served', async () => {
  await namespace.ip(...VETH);
  await (await namespace.follow({ forceClsact: true, patterns: ['v0'] })).kill();
  const other = makeNamespace();
  try {
    // The same namespace with pins of its own.
    const follower = await namespace.follow({ forceClsact: true, bpfRoot: other.bpffs.path });
    expect(find(follower.state(), 'v0')).toMatchObject({ isAttached: false, isFailed: true });
    expect(find(follower.state(), 'v0')?.reason).toMatch(
      /^its egress has a clsact filter with priority 50000/,
    );
    expect(find(follower.state(), 'v1')).toMatchObject({ isAttached: true });
    expect(await namespace.attachedTo('v0')).toHaveLength(2);
    await follower.kill();
  } finally {
    await other.release();
  }
});

test.each(['outer', 'inner'] as const)('order among programs of others: %s', async (order) => {
  await namespace.ip('link add v0 type veth peer name v1', 'link set v0 up', 'link set v1 up');
  await attachOther();
  const follower = await namespace.follow({ order });
  const own = (direction: string) => [`fl_${direction}`];
  const isOuter = order === 'outer';
  expect(find(follower.state(), 'v0')).toMatchObject({
    ingress: isOuter ? [...own('ingress'), 'other'] : ['other', ...own('ingress')],
    egress: isOuter ? ['other', ...own('egress')] : [...own('egress'), 'other'],
  });
});

test.each([false, true])(
  'a changed order applies after a restart; clsact: %s',
  async (forceClsact) => {
    await namespace.ip(...VETH);
    await attachOther();
    const first = await namespace.follow({ forceClsact, patterns: ['v0'] });
    const before = find(first.state(), 'v0');
    await first.kill();
    const second = await namespace.follow({ forceClsact, patterns: ['v0'], order: 'inner' });
    const after = find(second.state(), 'v0');
    expect(second.state().pins).toEqual(['fl_egress@v0', 'fl_ingress@v0']);
    if (forceClsact) {
      expect(before?.ingress.at(-1)).toBe('fl_ingress (clsact, priority 1)');
      expect(after?.ingress.at(-1)).toBe('fl_ingress (clsact, priority 50000)');
      const others = ['ingress other', 'egress other'];
      const left = (await namespace.attachedTo('v0')).filter(
        (one) => !others.some((other) => one.startsWith(other)),
      );
      expect(left).toEqual(['ingress filter 0', 'egress filter 0']);
    } else {
      expect([before?.ingress, before?.egress]).toEqual([
        ['fl_ingress', 'other'],
        ['other', 'fl_egress'],
      ]);
      expect([after?.ingress, after?.egress]).toEqual([
        ['other', 'fl_ingress'],
        ['fl_egress', 'other'],
      ]);
    }
  },
);

describe('an agent that was killed while it replaced a clsact filter', () => {
  const PINS = ['fl_egress@v0', 'fl_ingress@v0'];
  const settings = { forceClsact: true, patterns: ['v0'] };
  /** A program with the pin of the next one, and a filter where the changed order has it. */
  const leave = (hasFilter: boolean): Promise<string> =>
    namespace.evaluate(
      `const native = await load('sys/native.js');
       const object = native.openObject(require('node:fs').readFileSync(input.object));
       object.load();
       const { readNetwork } = await load('sys/netlink/follow.js');
       const [v0] = [...readNetwork().links.values()].filter(({ name }) => name === 'v0');
       const program = object.program('fl_ingress');
       program.pin(input.bpfRoot + '/links/fl_ingress@v0~');
       if (input.hasFilter)
         program.attachTc(v0.ifindex, 'ingress', { priority: 50_000, handle: 0xfa1, forceClsact: true });`,
      { object: DEVICES_OBJECT, bpfRoot: namespace.bpffs.path, hasFilter },
    );

  test.each([
    ['before', false, 'outer'],
    ['after', true, 'inner'],
    ['after, and the order was changed back', true, 'outer'],
  ] as const)('%s the new one was put', async (_, hasFilter, order) => {
    await namespace.ip(...VETH);
    await (await namespace.follow(settings)).kill();
    await leave(hasFilter);
    const { devices, pins } = (await namespace.follow({ ...settings, order })).state();
    expect(devices.filter((one) => one.isAttached).map(({ name }) => name)).toEqual(['v0']);
    expect(pins).toEqual(PINS);
    expect(await namespace.attachedTo('v0')).toEqual(['ingress filter 0', 'egress filter 0']);
  });
});

test('another instance’s filter where a changed order has ours: the device fails', async () => {
  await namespace.ip(...VETH);
  const other = makeNamespace();
  try {
    const theirs = { forceClsact: true, order: 'inner', bpfRoot: other.bpffs.path } as const;
    await (await namespace.follow({ ...theirs, patterns: ['v0'] })).kill();
    await (await namespace.follow({ forceClsact: true })).kill();
    const follower = await namespace.follow({ forceClsact: true, order: 'inner' });
    expect(find(follower.state(), 'v0')).toMatchObject({ isAttached: false, isFailed: true });
    expect(find(follower.state(), 'v1')).toMatchObject({ isAttached: true });
    expect(follower.state().pins).toEqual(['fl_egress@v1', 'fl_ingress@v1']);
    expect(await namespace.attachedTo('v0')).toHaveLength(2);
    await follower.kill();
  } finally {
    await other.release();
  }
});

test.each([false, true])('cleanup detaches everything; clsact: %s', async (forceClsact) => {
  await namespace.ip(...VETH);
  await (await namespace.follow({ forceClsact })).kill();
  await namespace.ip('link set v1 name renamed');
  expect(
    [await namespace.attachedTo('v0'), await namespace.attachedTo('renamed')].flat(),
  ).toHaveLength(4);
  const body = `const { removePinned } = await load('engines/bpf/kernel/loader/cleanup.js');
    removePinned(input.bpfRoot, { command: 'cleanup', runDir: '/nonexistent' });`;
  await namespace.evaluate(body, { bpfRoot: namespace.bpffs.path });
  expect([await namespace.attachedTo('v0'), await namespace.attachedTo('renamed')]).toEqual([
    [],
    [],
  ]);
});

/** A program of somebody else, in both directions of v0. */
async function attachOther(): Promise<void> {
  const text = await namespace.run('ip', '-j', 'link', 'show', 'v0');
  const [{ ifindex } = { ifindex: 0 }] = JSON.parse(text) as { ifindex: number }[];
  const body = `const native = await load('sys/native.js');
    const object = native.openObject(require('node:fs').readFileSync(input.object));
    object.load();
    for (const direction of ['ingress', 'egress']) {
      const link = object.program('other').attachTc(input.ifindex, direction);
      link.pin(input.bpfRoot + '/' + direction);
    }`;
  const input = { object: DEVICES_OBJECT, ifindex, bpfRoot: namespace.bpffs.path };
  await namespace.evaluate(body, input);
}
