// SPDX-License-Identifier: Apache-2.0
// The maps as bpftool shows them, and what happens when they are changed by hand.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mapPin, type PinnedMap } from '../../../../src/engines/bpf/layout/versions.ts';
import { run } from '../../../../src/sys/exec.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;
const web = { n: 10 };

beforeAll(async () => {
  node = await startOneNode(['a', 'b']);
  node.manifests.put('web.yaml', service('web', web, node.servers));
  await node.startAgent(['--audit-interval', '200ms']);
});
afterAll(() => node?.remove());

const pin = (map: PinnedMap): string => join(node.instance.bpfRoot, 'maps', mapPin(map));

async function bpftool(...args: readonly string[]): Promise<string> {
  const { stdout, stderr, code } = await run('bpftool', args);
  expect(code, stderr).toBe(0);
  return stdout.replace(/\s+/g, ' ');
}

/** An array element as bpftool prints it. */
function lookUp(map: PinnedMap, index: number): Promise<string> {
  const key = Buffer.alloc(4);
  key.writeUInt32LE(index);
  const hex = key.toString('hex').match(/../g) ?? [];
  return bpftool('map', 'lookup', 'pinned', pin(map), 'key', 'hex', ...hex);
}

describe('bpftool map dump', () => {
  test('frontends show addresses, ports and protocol names', async () => {
    const keys = await bpftool('map', 'dump', 'pinned', pin('fl_frontend4'));
    expect(keys).toContain('"address": [10,96,0,10 ]');
    expect(keys).toContain('"port": 80');
    expect(keys).toContain('"protocol": "PROTOCOL_TCP"');
    const id = /\[10,96,0,10 \], "port": 80.*?"frontend_id": (\d+)/.exec(keys)?.[1] ?? '0';
    const frontend = await lookUp('fl_frontend', Number(id));
    expect(frontend).toContain('255,255,10,96,0,10 ]');
    expect(frontend).toContain('"members": 2');
    expect(frontend).toContain('"kind": "SET_RANDOM"');
    expect(frontend).toContain('"drop_if_empty": 0');
  });

  test('backends show addresses, ports and state names', async () => {
    const { stdout } = await runCommand(node.instance, [
      'backends',
      '-o',
      'json',
      '--run-dir',
      node.instance.runDir,
    ]);
    const [first] = (
      JSON.parse(stdout) as { items: { id: number; backend: string }[] }
    ).items.filter(({ backend }) => backend.startsWith('10.'));
    const value = await lookUp('fl_backend4', first?.id ?? 0);
    const address = first?.backend.split(':')[0]?.replaceAll('.', ',');
    expect(value).toContain(`"address": [${address} ]`);
    expect(value).toContain('"port": 8080');
    expect(value).toContain('"state": "BACKEND_ACTIVE"');
  });

  test('a service id has a name', async () => {
    expect(await bpftool('map', 'dump', 'pinned', pin('fl_service'))).toContain(
      '"default/web:main"',
    );
  });
});

test('a frontend deleted by hand is restored by the next audit and reported', async () => {
  const before = (await node.status()).sync.driftTotal;
  const hex = '0a 60 00 0a 50 00 06 00'.split(' ');
  await bpftool('map', 'delete', 'pinned', pin('fl_frontend4'), 'key', 'hex', ...hex);
  await untilHolds(async () => {
    expect((await node.status()).sync.driftTotal).toBeGreaterThan(before);
    expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
  });
});

test('without an agent the commands read the pins; cleanup fails while one runs', async () => {
  const { instance } = node;
  const paths = ['--bpf-root', instance.bpfRoot, '--run-dir', instance.runDir];
  expect(await runCommand(instance, ['cleanup', ...paths])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/is running \(pid \d+\)/),
  });
  const elsewhere = ['--bpf-root', instance.bpfRoot, '--run-dir', `${instance.runDir}-none`];
  const { stdout } = await runCommand(instance, ['services', ...elsewhere, '-o', 'wide']);
  expect(stdout).toMatch(/default +web +main +- +10\.96\.0\.10:80\/TCP +IPv4 +2 +unknown/);
  expect(await runCommand(instance, ['status', ...elsewhere.slice(2)])).toMatchObject({ code: 3 });
});
