// SPDX-License-Identifier: Apache-2.0
// Connected UDP sockets whose backend is gone and that cannot be connected again: their programs get an error, in both ways to
// destroy a socket; no other socket is touched.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { pause } from '../../../support/pause.ts';
import { untilHolds } from '../../../support/until.ts';
import {
  errorsOf,
  heldPrograms,
  objectsWithout,
  RECOVERY_MS,
  startWith,
  WAYS,
  withObjects,
} from './support.ts';
import { KINDS, OTHER, udpServices, WEB, words } from './udp-services.ts';

const NAMES = { n: 12, protocol: 'UDP', port: 53, targetPort: 5300 } as const;

let node: Awaited<ReturnType<typeof startOneNode>>;
const held = heldPrograms(() => node);
const { put, putOther, rename, answeredBy } = udpServices(() => node);

beforeAll(async () => {
  node = await startOneNode(['a', 'b'], ['client', 'second']);
});
afterAll(() => node?.remove());

describe.each(WAYS)('%s', (way) => {
  let stop: () => Promise<unknown>;

  beforeAll(async () => {
    put('a');
    putOther('a');
    ({ stop } = await startWith(node, way));
  });
  afterAll(() => stop());

  test.each(KINDS)('%s: sockets that wait for an answer fail', async (kind) => {
    put('a');
    await answeredBy('a');
    const waiting = held(['udp', ...words(kind), 3]);
    await waiting.says('held 3');
    put('b');
    await untilHolds(
      () => expect(errorsOf(waiting)).toEqual(['ECONNABORTED', 'ECONNABORTED', 'ECONNABORTED']),
      RECOVERY_MS,
    );
    const again = held(['udp', ...words(kind), 3]);
    await again.says('held 3');
  });

  test('a socket that only sends fails', async () => {
    put('a');
    await answeredBy('a');
    const sender = held(['sender', ...words('IPv4')]);
    await sender.says('sending');
    put('b');
    // It has no peer any more; the error that recv() would show is not send()'s.
    await sender.says('EDESTADDRREQ', RECOVERY_MS);
  });

  test('sockets without a backend that is gone are left alone', async () => {
    put('a');
    await answeredBy('a');
    const [a] = node.pods('a');
    const others = [
      held(['unconnected', ...words('IPv4'), 2]),
      held(['unconnected', ...words('IPv6'), 2]),
      held(['udp', ...words('IPv4', OTHER), 2]),
      held(['udp', ...words('v4-mapped', OTHER), 2]),
      held(['udp', a!.ipv4, 8080, 2]),
      held(['udp', a!.ipv4, 8080, 2], node.sandboxes[1]),
      held(['udp', a!.ipv6, 8080, 2], node.self),
    ];
    const victims = [
      held(['udp', ...words('IPv4'), 2]),
      held(['udp', ...words('IPv6'), 2], node.sandboxes[1]),
      held(['udp', ...words('v4-mapped'), 2], node.self),
    ];
    for (const each of [...others, ...victims]) await each.says('held 2');
    put('b');
    for (const each of victims) {
      await untilHolds(
        () => expect(errorsOf(each)).toEqual(['ECONNABORTED', 'ECONNABORTED']),
        RECOVERY_MS,
      );
    }
    for (const each of others) {
      expect([await each.exchange(), errorsOf(each)]).toEqual([2, []]);
    }
  });

  test('glibc’s resolver gets its answer from another DNS server', async () => {
    const [a, b] = node.pods('a', 'b');
    const servers = [held(['dns', 5300], a), held(['dns', 5300], b)];
    for (const server of servers) await server.says('serving');
    node.manifests.put('names.yaml', service('names', NAMES, [a!]));
    const { address, port } = target(NAMES);
    await node.programmed();
    await held(['resolve', address, port]).says('answered');
    // It hangs, and says nothing about it.
    await pause(servers[0]!.child);
    const asking = held(['resolve', address, port]);
    await asking.says('asking');
    expect(asking.lines).toEqual(['asking']);
    node.manifests.put('names.yaml', service('names', NAMES, [b!]));
    await asking.says('answered', RECOVERY_MS);
  });

  test('a terminating endpoint keeps its sockets until it stops serving', async () => {
    const ending = (isServing: boolean) => {
      const conditions = { ready: false, serving: isServing, terminating: true };
      const [of, ...both] = service('web', WEB, node.pods('a', 'b'));
      const slices = both.map((slice) => {
        const [first, ...others] = slice['endpoints'] as readonly object[];
        return { ...slice, endpoints: [{ ...first, conditions }, ...others] };
      });
      node.manifests.put('web.yaml', [of!, ...slices]);
    };
    put('a');
    await answeredBy('a');
    const waiting = held(['udp', ...words('IPv4'), 3]);
    await waiting.says('held 3');
    const witness = held(['udp', ...words('IPv4', OTHER), 1]);
    await witness.says('held 1');
    ending(true);
    await answeredBy('b');
    // The pass that this one waits for has looked at the others, too.
    putOther('b');
    await untilHolds(() => expect(errorsOf(witness)).toHaveLength(1), RECOVERY_MS);
    expect([await waiting.exchange(), errorsOf(waiting)]).toEqual([3, []]);
    putOther('a');
    ending(false);
    await untilHolds(() => expect(errorsOf(waiting)).toHaveLength(3), RECOVERY_MS);
  });

  test('an endpoint that serves under another port name keeps its sockets', async () => {
    put('a');
    await answeredBy('a');
    const waiting = held(['udp', ...words('IPv4'), 3]);
    await waiting.says('held 3');
    const witness = held(['udp', ...words('IPv4', OTHER), 1]);
    await witness.says('held 1');
    rename('a');
    await node.programmed();
    putOther('b');
    await untilHolds(() => expect(errorsOf(witness)).toHaveLength(1), RECOVERY_MS);
    expect([await waiting.exchange(), errorsOf(waiting)]).toEqual([3, []]);
    putOther('a');
  });

  test('1,000 sockets', async () => {
    put('a');
    await answeredBy('a');
    const many = held(['udp', ...words('IPv4'), 1000]);
    await many.says('held 1000');
    put('b');
    await untilHolds(() => expect(errorsOf(many)).toHaveLength(1000), RECOVERY_MS);
  });
});

test('sockets that became stale while nobody destroyed them are destroyed at the start', async () => {
  put('a');
  const without = objectsWithout(node, 'destroy.bpf.o', 'find_stale.bpf.o', 'walk_stale.bpf.o');
  const first = await withObjects(without, () => node.startAgent());
  const waiting = held(['udp', ...words('IPv4'), 3]);
  await waiting.says('held 3');
  put('b');
  await answeredBy('b');
  await first.kill();
  expect(errorsOf(waiting)).toEqual([]);
  const second = await startWith(node, 'bpf_sock_destroy');
  await untilHolds(() => expect(errorsOf(waiting)).toHaveLength(3), RECOVERY_MS);
  await second.stop();
});

test('an agent that ends right after the sync: the next one destroys the sockets', async () => {
  put('a');
  const first = await node.startAgent();
  const waiting = held(['udp', ...words('IPv4'), 3]);
  await waiting.says('held 3');
  await first.kill();
  put('b');
  const second = await node.startAgent();
  await second.kill();
  const third = await startWith(node, 'bpf_sock_destroy');
  await untilHolds(() => expect(errorsOf(waiting)).toHaveLength(3), RECOVERY_MS);
  await third.stop();
});
