// SPDX-License-Identifier: Apache-2.0
// `fairlead run --xdp`: a device is tried with real frames before it forwards, says why it does not, and serves all the while.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Agent, runCommand } from '../../../../src/lab/agent.ts';
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
    await cluster.run(namespace, 'ip', 'link', 'property', 'add', 'dev', 'uplink', 'altname', 'x0');
    await cluster.run(namespace, 'ip', 'link', 'set', 'uplink', 'name', 'uplink.7');
    // --xdp names the old name: the renamed device is not asked for.
    await until(async () => (await onDevice('uplink.7')) === '' && pins().length === 0, 'no XDP');
    await cluster.run(namespace, 'ip', 'link', 'set', 'uplink.7', 'name', 'uplink');
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
    await cluster.ethtool(cluster.wire, 'n1', 'gro', 'off');
    const sender = await cluster.evaluate(
      `const frame = new Uint8Array(60);
       new DataView(frame.buffer).setUint32(16, ifindex, true);
       object.program('fl_xdp_send').testRun({ dataIn: frame, dataOutSize: 0, repeat: 40, flags: 2 });`,
    );
    const { reason, lost } = await cluster.untilXdp('refused');
    expect(reason).toBe('its driver lost 40 of 40 frames of XDP within 10 s');
    expect(lost).toBe(40);
    expect([await onDevice(), pins()]).toEqual(['', []]);
    expect(agent.log.join('\n')).toContain('XDP is not used on a device');
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
