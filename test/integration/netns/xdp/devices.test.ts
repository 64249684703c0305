// SPDX-License-Identifier: Apache-2.0
// `fairlead run --xdp`: a device is tried with real frames before it forwards, says why it does not, and serves all the while.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ipBatch } from '../../../../src/sys/netns.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import { Scrapes, XDP_METRICS } from '../../../support/http/scrape.ts';
import { until } from '../../../support/until.ts';
import { FAR_PORT, makeXdpCluster, NEAR_PORT, XDP, type XdpCluster } from './support/cluster.ts';

let cluster: XdpCluster;
let agent: Agent | undefined;

beforeAll(async () => {
  cluster = await makeXdpCluster();
});
afterEach(async () => {
  await agent?.stop();
  agent = undefined;
});
afterAll(() => cluster?.remove());

const pins = (): readonly string[] =>
  readdirSync(join(cluster.node.instance.bpfRoot, 'links')).filter((pin) =>
    pin.startsWith('fl_xdp'),
  );
/** `prog/xdp id 17`, of the device that is named; empty without. */
const onDevice = async (device = 'uplink'): Promise<string> => {
  const text = await cluster.run(cluster.node.self.namespace, 'ip', '-d', 'link', 'show', device);
  return /prog\/xdp(?:generic)? id \d+/.exec(text)?.[0] ?? '';
};
const command = async (...args: readonly string[]): Promise<string> => {
  const { instance } = cluster.node;
  return (await runCommand(instance, [...args, '--run-dir', instance.runDir])).stdout;
};

/** Nothing depends on XDP. */
async function expectServed(): Promise<void> {
  expect(await cluster.answers(FAR_PORT)).toEqual(Array(4).fill('far'));
  expect(await cluster.answers(NEAR_PORT)).toEqual(Array(4).fill('near'));
}

describe('a device that passes', () => {
  test('forwards, says so, and serves remote and local backends', async () => {
    agent = await cluster.start();
    expect(await cluster.untilXdp('on')).toMatchObject({ lost: 0 });
    await expectServed();
    const stdout = await command('status', '-o', 'wide');
    expect(stdout).toContain('XDP on: its driver has passed the test');
    expect(stdout).toContain('XDP off: --xdp has off');
    expect(stdout).toContain('XDP off: it has no packet programs');
    expect(pins()).toEqual(['fl_xdp@uplink']);
    expect(await onDevice()).toMatch(/^prog\/xdp id/);
  });

  test('keeps it while the agent is killed, and its successor replaces the program in place', async () => {
    const before = await onDevice();
    await (await cluster.start()).kill();
    expect(before).not.toBe('');
    await expectServed();
    agent = await cluster.start();
    const xdp = (await cluster.device())?.xdp;
    expect(xdp).toMatchObject({ state: 'on', reason: 'an earlier agent has tried it' });
    expect(await onDevice()).not.toBe(before);
    expect(pins()).toEqual(['fl_xdp@uplink']);
    await expectServed();
  });

  test('keeps it when it is renamed, and loses it when it goes down', async () => {
    agent = await cluster.start();
    await cluster.untilXdp('on');
    const { namespace } = cluster.node.self;
    await cluster.run(namespace, 'ip', 'link', 'set', 'uplink', 'name', 'uplink.7');
    // --xdp names the old name: the renamed device is not asked for.
    await until(async () => (await onDevice('uplink.7')) === '' && pins().length === 0, 'no XDP');
    await cluster.run(namespace, 'ip', 'link', 'set', 'uplink.7', 'name', 'uplink');
    await cluster.untilXdp('on');
    await cluster.run(namespace, 'ip', 'link', 'set', 'uplink', 'down');
    await until(async () => (await onDevice()) === '' && pins().length === 0, 'no XDP');
    const up = [
      'link set uplink up',
      'addr replace fd00:77::1/64 dev uplink nodad',
      'route replace 10.1.2.0/24 via 192.168.77.2',
      'route replace fd00:10:2::/64 via fd00:77::2',
    ];
    await ipBatch(up, namespace);
    await cluster.untilXdp('on');
    await expectServed();
  });

  test('loses it with --xdp off, of which an agent costs nothing', async () => {
    await (await cluster.start()).kill();
    expect(await onDevice()).not.toBe('');
    agent = await cluster.start(['--xdp', 'off']);
    expect([await onDevice(), pins()]).toEqual(['', []]);
    expect((await cluster.device())?.xdp).toBeUndefined();
    await expectServed();
  });

  test('keeps it, and carries frames of several parts, when MTUs become larger', async () => {
    agent = await cluster.start();
    await cluster.untilXdp('on');
    const before = await onDevice();
    // The kernel refuses a larger MTU at the other end of a veth whose program has no fragments.
    for (const wired of ['n1', 'n2']) {
      await cluster.run(cluster.wire, 'ip', 'link', 'set', wired, 'mtu', '9000');
    }
    await cluster.run(cluster.wire, 'ip', 'link', 'set', 'br0', 'mtu', '9000');
    for (const { self } of cluster.all.nodes) {
      await cluster.run(self.namespace, 'ip', 'link', 'set', 'uplink', 'mtu', '9000');
    }
    expect((await cluster.device())?.xdp).toMatchObject({ state: 'on', lost: 0 });
    const [, second] = cluster.all.nodes;
    const ping = ['ping', '-c', '1', '-W', '5', '-M', 'do', '-s', '8900', '192.168.77.1'];
    await cluster.run(second!.self.namespace, ...ping);
    await expectServed();
    expect(await onDevice()).toBe(before);
    for (const wired of ['n1', 'n2', 'br0']) {
      await cluster.run(cluster.wire, 'ip', 'link', 'set', wired, 'mtu', '1500');
    }
    for (const { self } of cluster.all.nodes) {
      await cluster.run(self.namespace, 'ip', 'link', 'set', 'uplink', 'mtu', '1500');
    }
  });

  test('that appears, with an MTU above a page, is tried as any other', async () => {
    agent = await cluster.start(['--xdp', 'uplink=native,late=native']);
    await cluster.untilXdp('on');
    const { namespace } = cluster.node.self;
    const pair = ['type', 'veth', 'peer', 'name', 'late', 'mtu', '9000', 'netns', cluster.wire];
    await cluster.run(namespace, 'ip', 'link', 'add', 'late', 'mtu', '9000', ...pair);
    await cluster.ethtool(cluster.wire, 'late', 'gro', 'on');
    // Frames come in of the wire's own accord, for IPv6.
    await cluster.run(namespace, 'ip', 'addr', 'add', '203.0.113.1/24', 'dev', 'late');
    await cluster.run(cluster.wire, 'ip', 'link', 'set', 'late', 'up');
    await cluster.run(namespace, 'ip', 'link', 'set', 'late', 'up');
    await cluster.untilXdp('on', 'late');
    expect(pins()).toEqual(['fl_xdp@late', 'fl_xdp@uplink']);
    await cluster.run(namespace, 'ip', 'link', 'del', 'late');
    await until(() => pins().length === 1, 'its pin to be gone');
    await expectServed();
  });

  test('keeps it when it has exchanged its name with another one while no agent ran', async () => {
    const flags = ['--xdp', 'uplink=native,late=native'];
    const killed = await cluster.start(flags);
    const { namespace } = cluster.node.self;
    const pair = ['type', 'veth', 'peer', 'name', 'late', 'netns', cluster.wire];
    await cluster.run(namespace, 'ip', 'link', 'add', 'late', ...pair);
    await cluster.ethtool(cluster.wire, 'late', 'gro', 'on');
    await cluster.run(namespace, 'ip', 'addr', 'add', '203.0.113.1/24', 'dev', 'late');
    await cluster.run(cluster.wire, 'ip', 'link', 'set', 'late', 'up');
    await cluster.run(namespace, 'ip', 'link', 'set', 'late', 'up');
    await cluster.untilXdp('on');
    await cluster.untilXdp('on', 'late');
    await killed.kill();
    const exchange = ['uplink name other', 'late name uplink', 'other name late'];
    await ipBatch(
      exchange.map((change) => `link set ${change}`),
      namespace,
    );
    agent = await cluster.start(flags);
    const adopted = { state: 'on', reason: 'an earlier agent has tried it' };
    for (const name of ['uplink', 'late']) {
      expect((await cluster.device(name))?.xdp).toMatchObject(adopted);
      expect(await onDevice(name)).toMatch(/^prog\/xdp id/);
    }
    expect(pins()).toEqual(['fl_xdp@late', 'fl_xdp@uplink']);
    await expectServed();
    // Each has its own: the one that goes takes only that along.
    await cluster.run(namespace, 'ip', 'link', 'del', 'uplink');
    await until(() => pins().join() === 'fl_xdp@late', 'its pin to be gone');
    expect(await onDevice('late')).toMatch(/^prog\/xdp id/);
    await cluster.run(namespace, 'ip', 'link', 'set', 'late', 'name', 'uplink');
    await until(() => pins().join() === 'fl_xdp@uplink', 'the pin of the name');
    await expectServed();
  });

  test('loses it with cleanup', async () => {
    const killed = await cluster.start();
    await cluster.untilXdp('on');
    await killed.kill();
    const { instance } = cluster.node;
    expect(await onDevice()).not.toBe('');
    await runCommand(instance, [
      'cleanup',
      '--bpf-root',
      instance.bpfRoot,
      '--run-dir',
      instance.runDir,
    ]);
    expect(await onDevice()).toBe('');
  });
});

describe('a device that does not', () => {
  test('because its driver takes no frames of XDP: it says so, has no program, and serves', async () => {
    await cluster.ethtool(cluster.wire, 'n1', 'gro', 'off');
    agent = await cluster.start();
    const { reason } = await cluster.untilXdp('refused');
    expect(reason).toBe('its driver took 0 of 8 frames that XDP sent');
    expect([await onDevice(), pins()]).toEqual(['', []]);
    await expectServed();
    await cluster.ethtool(cluster.wire, 'n1', 'gro', 'on');
  });

  test('because somebody else has XDP there, which stays', async () => {
    agent = await cluster.start(['--xdp', 'off']);
    const other = await cluster.evaluate(
      `globalThis.link = object.program('fl_xdp_trial').attachXdp(ifindex, { mode: 'native' });`,
    );
    const theirs = await onDevice();
    expect(theirs).not.toBe('');
    await agent.stop();
    agent = await cluster.start();
    const { reason } = await cluster.untilXdp('refused');
    expect(reason).toMatch(/^it has another XDP program \(\d+\), which stays$/);
    expect(await onDevice()).toBe(theirs);
    await expectServed();
    await other.end();
  });

  test('any more, because frames are lost: XDP is taken off within seconds, and told', async () => {
    agent = await cluster.start();
    await cluster.untilXdp('on');
    const scrapes = new Scrapes(cluster.node.instance.sandbox);
    await scrapes.take();
    await expectServed();
    await cluster.ethtool(cluster.wire, 'n1', 'gro', 'off');
    const sender = await cluster.evaluate(
      `const frame = new Uint8Array(60);
       new DataView(frame.buffer).setUint32(16, ifindex, true);
       object.program('fl_xdp_send').testRun({ dataIn: frame, dataOutSize: 0, repeat: 40, flags: 2 });`,
    );
    const { reason, lost } = await cluster.untilXdp('refused');
    expect(reason).toMatch(
      new RegExp(`^its driver lost ${lost} of \\d+ frames of XDP within 10 s$`),
    );
    // A few more, if a server ends its connection as late.
    expect(lost).toBeGreaterThanOrEqual(40);
    expect(lost).toBeLessThan(60);
    expect([await onDevice(), pins()]).toEqual(['', []]);
    expect(agent.log.join('\n')).toContain('XDP is not used on a device');
    await scrapes.take();
    expect(scrapes.unmoved(XDP_METRICS)).toEqual([]);
    await expectServed();
    await sender.end();
    await cluster.ethtool(cluster.wire, 'n1', 'gro', 'on');
  });
});

test('by default no device has it', async () => {
  agent = await cluster.start([]);
  expect([await onDevice(), pins()]).toEqual(['', []]);
  expect(XDP.length).toBe(2);
});
