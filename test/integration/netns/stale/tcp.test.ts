// SPDX-License-Identifier: Apache-2.0
// TCP connections whose backend is gone: left alone by default, as kube-proxy does; with --reset-tcp-connections both
// ends are reset at once.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { type AddressKind, service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { errorsOf, heldPrograms, RECOVERY_MS, startWith, WAYS } from './support.ts';

const WEB = { n: 10 } as const;
const OTHER = { n: 11 } as const;
const UDP = { n: 12, protocol: 'UDP' } as const;
const KINDS = ['IPv4', 'IPv6', 'v4-mapped'] as const;
/** State in /proc/net/tcp. */
const ESTABLISHED = '01';

let node: Awaited<ReturnType<typeof startOneNode>>;
const held = heldPrograms(() => node);

beforeAll(async () => {
  node = await startOneNode(['a', 'b'], ['client', 'second']);
});
afterAll(() => node?.remove());

const put = (...pods: readonly string[]): void => {
  node.manifests.put('web.yaml', service('web', WEB, node.pods(...pods)));
  node.manifests.put('udp.yaml', service('udp', UDP, node.pods(...pods)));
};

const endOf = (kind: AddressKind, spec: typeof WEB | typeof OTHER | typeof UDP = WEB) => {
  const { address, port } = target(spec, kind);
  return [address, port];
};

/** Connections of pod `name`'s server that it takes for established. */
async function established(name: string): Promise<number> {
  const [pod] = node.pods(name);
  const [program = '', ...args] = insideSandbox(pod!, ['cat', '/proc/net/tcp', '/proc/net/tcp6']);
  const { stdout } = await run(program, args);
  const port = (8080).toString(16).toUpperCase();
  return stdout.split('\n').filter((line) => {
    const [, local, , state] = line.trim().split(/\s+/);
    return local?.endsWith(`:${port}`) === true && state === ESTABLISHED;
  }).length;
}

/** Once a UDP socket of the same change is connected again, a pass has looked at TCP sockets too. */
async function changeBackends(): Promise<void> {
  const witness = held(['udp', ...endOf('IPv4', UDP), 1]);
  await witness.says('held 1');
  put('b');
  await untilHolds(
    async () => expect((await node.status()).staleSockets).toMatchObject({ connected: 1 }),
    RECOVERY_MS,
  );
}

test.each(KINDS)('%s: by default connections stay', async (kind) => {
  put('a');
  const agent = await node.startAgent();
  const streams = held(['tcp', ...endOf(kind), 3]);
  await streams.says('held 3');
  await changeBackends();
  expect([await streams.exchange(), errorsOf(streams)]).toEqual([3, []]);
  await agent.stop();
});

describe.each(WAYS)('%s', (way) => {
  let agent: Agent;
  beforeAll(async () => {
    put('a');
    node.manifests.put('other.yaml', service('other', OTHER, node.pods('a')));
    agent = await startWith(node, way, ['--reset-tcp-connections']);
  });
  afterAll(() => agent.stop());

  test('both ends are reset, in every namespace, and no other connection is', async () => {
    put('a');
    await untilHolds(async () =>
      expect(await node.client().once(target(WEB))).toMatchObject({ backend: 'a' }),
    );
    const [a] = node.pods('a');
    const others = [
      held(['tcp', ...endOf('IPv4', OTHER), 2]),
      held(['tcp', ...endOf('v4-mapped', OTHER), 2], node.self),
      held(['tcp', a!.ipv4, 8080, 2], node.sandboxes[1]),
      held(['tcp', a!.ipv6, 8080, 2]),
    ];
    const victims = [
      held(['tcp', ...endOf('IPv4'), 2]),
      held(['tcp', ...endOf('IPv6'), 2], node.sandboxes[1]),
      held(['tcp', ...endOf('v4-mapped'), 2], node.self),
    ];
    for (const each of [...others, ...victims]) await each.says('held 2');
    // Others of earlier tests, which are closed, may not be gone yet.
    await untilHolds(async () => expect(await established('a')).toBe(14));
    put('b');
    for (const each of victims) {
      await untilHolds(
        () => expect(errorsOf(each)).toEqual(['ECONNABORTED', 'ECONNABORTED']),
        RECOVERY_MS,
      );
    }
    await untilHolds(async () => expect(await established('a')).toBe(8), RECOVERY_MS);
    for (const each of others) expect([await each.exchange(), errorsOf(each)]).toEqual([2, []]);
  });
});
