// SPDX-License-Identifier: Apache-2.0
// What the first agent of a node finds of a proxy before it: unknown TCP connections are reset, or left to the kernel.
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { mapPath } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import { decodeKeptSettings } from '../../../../src/engines/bpf/layout/packet-layout.ts';
import { run } from '../../../../src/sys/exec.ts';
import { openPinnedMap } from '../../../../src/sys/native.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import { service } from '../../../support/builders.ts';
import { startOneNode, type TestNode } from '../../../support/node.ts';

let node: TestNode & { remove(): void };
beforeAll(async () => {
  node = await startOneNode(['web']);
  node.manifests.put('web.yaml', service('web', { n: 10 }, node.pods('web')));
});
afterAll(() => node?.remove());

/** Seconds until unknown connections are reset, as of the first start of an agent, and what its log says. */
async function firstStart(): Promise<{ readonly waits: number; readonly log: string }> {
  rmSync(node.instance.bpfRoot, { recursive: true, force: true });
  const agent = await node.startAgent();
  const map = openPinnedMap(mapPath(node.instance.bpfRoot, 'fl_packet'));
  const kept = decodeKeptSettings(map.get(encodeU32(0))!)!;
  map.close();
  await agent.kill();
  const now = Number(process.hrtime.bigint() / 1_000_000_000n);
  return { waits: kept.resetUnknownFrom - now, log: agent.log.join('\n') };
}

test('a node without an earlier proxy resets them at once; one whose conntrack has a translated connection leaves them', async () => {
  const fresh = await firstStart();
  expect(fresh.waits).toBeLessThanOrEqual(0);
  expect(fresh.log).toContain('no sign of an earlier proxy');

  const [web] = node.pods('web');
  const entry = ['-p', 'tcp', '-s', '192.0.2.9', '-d', '10.96.0.10', '--sport', '40000'];
  const how = ['--dport', '80', '--state', 'ESTABLISHED', '-t', '600', '-u', 'SEEN_REPLY'];
  const to = ['--dst-nat', `${web!.ipv4}:8080`];
  const line = ['conntrack', '-I', ...entry, ...how, ...to];
  const [program = '', ...args] = insideNamespace(node.self.namespace!, line);
  expect(await run(program, args)).toMatchObject({ code: 0 });
  const former = await firstStart();
  expect(former.waits).toBeGreaterThan(0);
  expect(former.log).toContain('translated TCP connections in conntrack');
});
