// SPDX-License-Identifier: Apache-2.0
// Packets move to rules and back while manifests have slips: what keeps serving goes on to, and nothing begins anew.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const NODE_PORT = 30_080;
const LOOK = ['--iptables-sync-period', '1s'];
const WEB = { n: 10, nodePort: NODE_PORT };
const BROKEN = { n: 11 };
const GONE = Array.from({ length: 12 }, (_, index) => ({ name: `gone-${index}`, n: 20 + index }));

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;
beforeAll(async () => {
  node = await startOneNode(['web-1']);
  for (const { name, ...spec } of [{ name: 'web', ...WEB }, { name: 'broken', ...BROKEN }, ...GONE])
    node.manifests.put(`${name}.yaml`, service(name, spec, node.servers));
  agent = await node.startAgent(['--engine', 'auto', '--manifests-removal-delay', '10m', ...LOOK]);
  await node.programmed();
});
afterAll(async () => {
  await agent?.stop();
  node?.remove();
});

/** Closes a port before addresses are translated: rules must serve packets behind it. */
const firewall = async (change: '-A' | '-D'): Promise<void> => {
  const rule = ['-p', 'tcp', '--dport', String(NODE_PORT), '-j', 'DROP'];
  const argv = ['iptables-nft', '-t', 'raw', change, 'PREROUTING', ...rule];
  const [program = '', ...args] = insideNamespace(node.instance.sandbox.namespace, argv);
  expect(await run(program, args)).toMatchObject({ code: 0, stderr: '' });
};
const count = (text: string): number => agent.log.filter((line) => line.includes(text)).length;

test('the last good version and removals that wait outlive a move, in both directions', async () => {
  const broken = service('broken', { ...BROKEN, nodePort: 99_999 }, node.servers);
  node.manifests.put('broken.yaml', broken);
  await untilHolds(() => expect(count('the last good version')).toBe(1));
  for (const { name } of GONE) node.manifests.remove(`${name}.yaml`);
  await untilHolds(() => expect(count('removal of Services waits')).toBe(1));
  const { startedAt } = await node.status();
  const expectAsBefore = async (): Promise<void> => {
    const status = await node.status();
    expect(status.startedAt).toBe(startedAt);
    expect(status.problems.map(({ reason }) => reason).join()).toMatch(
      /the last good version.*Services are gone|Services are gone.*the last good version/,
    );
    const { stdout } = await runCommand(node.instance, [
      ...['services', '--run-dir', node.instance.runDir],
    ]);
    for (const { name } of [{ name: 'web' }, { name: 'broken' }, ...GONE])
      expect(stdout).toContain(name);
    expect(await node.client().once(target(BROKEN))).toMatchObject({ backend: 'web-1' });
  };
  await expectAsBefore();
  await firewall('-A');
  await untilHolds(async () => expect((await node.status()).fallback?.what).toBe('packets'));
  await node.programmed();
  await expectAsBefore();
  await firewall('-D');
  await untilHolds(async () => expect((await node.status()).fallback).toBeUndefined());
  await node.programmed();
  await expectAsBefore();
  expect([count('packets move'), count('"msg":"ready"'), count('"msg":"resumed"')]).toEqual([
    2, 1, 0,
  ]);
});
