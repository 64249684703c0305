// SPDX-License-Identifier: Apache-2.0
// Selection as a table: the result of each request, in both families.
import { beforeEach, describe, expect, test } from 'vitest';
import {
  encodeFrontendKey,
  encodeRangeKey,
  encodeU32,
  RANGES_PER_WORD,
} from '../../../src/engines/bpf/layout/layout.ts';
import { followNode } from '../../../src/engines/bpf/node-map.ts';
import { rangeOf } from '../../../src/engines/bpf/rows/satellites/service-ranges.ts';
import type { Family } from '../../../src/model/types.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { until } from '../../support/until.ts';
import { type Choice, Drive } from './support/drive.ts';
import { emptiedBeforeEach } from './support/emptied.ts';

/** Index of fl_reason (bpf/common/reason.h). */
const REASON = {
  translated: 0,
  notFrontend: 1,
  loopback: 4,
  empty: 5,
  noLocal: 6,
  stale: 7,
  flowEnded: 10,
  rangesSkipped: 11,
  rangesDropped: 12,
};
const FAMILIES = {
  IPv4: {
    vip: '10.96.0.10',
    pod: (n: number) => `10.0.0.${n}`,
    node: '192.0.2.1',
    loop: '127.0.0.1',
  },
  IPv6: { vip: 'fd00::10', pod: (n: number) => `fd00:1::${n}`, node: '2001:db8::1', loop: '::1' },
} as const;

const drive = emptiedBeforeEach(new Drive());

describe.each(['IPv4', 'IPv6'] as const)('%s', (family: Family) => {
  const { vip, pod, node, loop } = FAMILIES[family];
  const to = { to: vip, port: 80 };
  const shown = (n: number) => (family === 'IPv4' ? `${pod(n)}:8080` : `[${pod(n)}]:8080`);
  const backend = (n: number, more = {}) =>
    drive.putBackend({ id: n, address: pod(n), port: 8080, ...more });
  const many = (request = to as Parameters<Drive['select']>[0], times = 60): Choice[] =>
    Array.from({ length: times }, () => drive.select(request));

  /** Backends 1..4; clients from outside get 3 and 4, all others 1 and 2. */
  function publish(more = {}): void {
    for (const n of [1, 2, 3, 4]) backend(n);
    const rules = {
      host: { set: drive.putSet(0, [1, 2]) },
      outside: { set: drive.putSet(1, [3, 4]) },
    };
    drive.putFrontend({ address: vip, port: 80, rules, ...more });
  }
  const idsOf = (choices: Choice[]) => [...new Set(choices.map(({ id }) => id))].sort();

  test('a frontend is translated to one of its backends, with the backend’s address and port', () => {
    publish();
    const choices = many();
    expect(idsOf(choices)).toEqual([1, 2]);
    expect(new Set(choices.map((c) => c.verdict))).toEqual(new Set(['translate']));
    expect(new Set(choices.map((c) => c.backend))).toEqual(new Set([shown(1), shown(2)]));
  });

  test('anything but a frontend is left alone: other address, port, protocol or family', () => {
    publish();
    const left = { verdict: 'leave', reason: REASON.notFrontend };
    expect(drive.select({ to: pod(9), port: 80 })).toMatchObject(left);
    expect(drive.select({ to: vip, port: 81 })).toMatchObject(left);
    expect(drive.select({ ...to, protocol: 'UDP' })).toMatchObject(left);
    const other = family === 'IPv4' ? 'fd00::a60:a' : '10.96.0.11';
    expect(drive.select({ to: other, port: 80 })).toMatchObject(left);
  });

  test.each([
    ['reject', 'refuse', REASON.empty],
    ['drop', 'drop', REASON.noLocal],
  ] as const)('an empty set with %s is to %s', (whenEmpty, verdict, reason) => {
    drive.putFrontend({ address: vip, port: 80, rules: { host: { whenEmpty } } });
    expect(drive.select(to)).toMatchObject({ verdict, reason, id: 0 });
  });

  test.each(['unknown', 'host', 'pod', 'outside'] as const)(
    'clients of position %s get the traffic rule of their position',
    (position) => {
      for (const n of [1, 2, 3, 4]) backend(n);
      const rules = {
        unknown: { set: drive.putSet(0, [1]) },
        host: { set: drive.putSet(1, [2]), masquerade: true },
        pod: { set: drive.putSet(2, [3]) },
        outside: { set: drive.putSet(3, [4]), masquerade: true },
      };
      drive.putFrontend({ address: vip, port: 80, rules });
      const choices = many({ ...to, position }, 20);
      expect(idsOf(choices)).toEqual([{ unknown: 1, host: 2, pod: 3, outside: 4 }[position]]);
      const masquerade = position === 'host' || position === 'outside';
      expect(choices.every((choice) => choice.masquerade === masquerade)).toBe(true);
    },
  );

  test('each traffic rule has its own verdict for an empty set', () => {
    drive.putFrontend({ address: vip, port: 80, rules: { host: {}, pod: { whenEmpty: 'drop' } } });
    expect(drive.select({ ...to, position: 'host' }).verdict).toBe('refuse');
    expect(drive.select({ ...to, position: 'pod' }).verdict).toBe('drop');
  });

  test('a key that leads to the record of another frontend matches nothing', () => {
    publish();
    const [other, table] =
      family === 'IPv4' ? ['10.96.0.99', 'fl_frontend4'] : ['fd00::99', 'fl_frontend6'];
    const key = encodeFrontendKey({ family, address: other, port: 80, protocol: 'TCP' });
    drive.object.map(table).put(key, encodeU32(1));
    expect(drive.select({ to: other, port: 80 })).toMatchObject({ reason: REASON.notFrontend });
    drive.object.map(table).put(key, encodeU32(2 ** 31));
    expect(drive.select({ to: other, port: 80 })).toMatchObject({ reason: REASON.notFrontend });
    expect(drive.select(to).verdict).toBe('translate');
  });

  test('an established flow keeps its backend or is refused', () => {
    publish();
    const flow = { id: 2, serviceId: 1, generation: 1 };
    const request = { ...to, mayChooseAnew: false };
    expect(drive.select({ ...request, flow })).toMatchObject({ id: 2, isKept: true });
    expect(drive.select(request)).toMatchObject({ verdict: 'refuse', reason: REASON.flowEnded });
    backend(2, { state: 'GONE' });
    expect(drive.select({ ...request, flow }).reason).toBe(REASON.flowEnded);
  });

  describe('NodePorts', () => {
    beforeEach(() => {
      backend(1);
      drive.putFrontend({ family, port: 30_080, rules: { host: { set: drive.putSet(0, [1]) } } });
      drive.putNodeAddress(node, 'node');
      drive.putNodeAddress(loop, 'loopback');
      drive.putNodePorts(1);
    });

    test('answer on node addresses for all clients', () => {
      for (const position of ['host', 'pod', 'unknown'] as const) {
        expect(drive.select({ to: node, port: 30_080, position }).id).toBe(1);
      }
      expect(drive.select({ to: pod(7), port: 30_080 }).verdict).toBe('leave');
      expect(drive.select({ to: node, port: 30_081 }).verdict).toBe('leave');
    });

    test('answer on loopback only for clients on the node', () => {
      const all = family === 'IPv4' ? [loop, '127.0.0.53', '127.255.255.254'] : [loop];
      for (const address of all) {
        const request = { to: address, port: 30_080 };
        expect(drive.select({ ...request, position: 'host' }).id).toBe(1);
        expect(drive.select({ ...request, position: 'pod' }).verdict).toBe('leave');
        expect(drive.select({ ...request, position: 'unknown' }).verdict).toBe('leave');
      }
    });

    test('are not looked up if there are none', () => {
      drive.putNodePorts(0);
      expect(drive.select({ to: node, port: 30_080 }).verdict).toBe('leave');
    });

    test('are looked up only by the ports of some', () => {
      const words = new BigUint64Array(drive.object.map('fl_not_service').mmap());
      const bit = rangeOf(
        encodeFrontendKey({ family, address: undefined, port: 30_080, protocol: 'TCP' }),
      );
      words.fill(2n ** 64n - 1n);
      expect(drive.select({ to: node, port: 30_080 }).verdict).toBe('leave');
      words[Math.floor(bit / RANGES_PER_WORD)]! &= ~(1n << BigInt(bit % RANGES_PER_WORD));
      expect(drive.select({ to: node, port: 30_080 }).id).toBe(1);
    });

    test('an exact frontend comes before the wildcard', () => {
      backend(2);
      drive.putFrontend({
        address: node,
        port: 30_080,
        rules: { host: { set: drive.putSet(1, [2]) } },
      });
      expect(idsOf(many({ to: node, port: 30_080 }))).toEqual([2]);
    });
  });

  describe('all other ports of an address', () => {
    const other = { to: vip, port: 81 };
    beforeEach(() => {
      const key = encodeFrontendKey({ family, address: vip, port: 0, protocol: undefined });
      const record = drive.putFrontend({ address: vip, port: 80 });
      const bytes = drive.object.map('fl_frontend').get(encodeU32(record))!;
      bytes.set([0, 0, 0], 42);
      drive.object.map('fl_frontend').put(encodeU32(4000), bytes);
      drive.object
        .map(family === 'IPv4' ? 'fl_frontend4' : 'fl_frontend6')
        .put(key, encodeU32(4000));
    });

    test('are rejected if the Service ranges are unknown', () => {
      expect(drive.select(other).verdict).toBe('refuse');
    });

    test('are looked up only within the Service ranges', () => {
      const bits = new BigUint64Array(drive.object.map('fl_not_service').mmap());
      const range = rangeOf(
        encodeFrontendKey({ family, address: vip, port: 0, protocol: undefined }),
      );
      const word = Math.floor(range / RANGES_PER_WORD);
      const bit = 1n << BigInt(range % RANGES_PER_WORD);
      bits.fill(2n ** 64n - 1n);
      bits[word]! &= ~bit;
      expect(drive.select(other).verdict).toBe('refuse');
      bits.fill(0n);
      bits[word]! |= bit;
      for (const port of [80, 81]) {
        const seen = drive.select({ to: vip, port });
        expect(seen).toMatchObject({ verdict: 'leave', reason: REASON.notFrontend });
      }
    });
  });

  test('a socket bound to loopback is left alone unless the backend is on loopback', () => {
    publish();
    const request = { ...to, sourceIsLoopback: true };
    expect(drive.select(request)).toMatchObject({ verdict: 'leave', reason: REASON.loopback });
    for (const n of [1, 2]) drive.putBackend({ id: n, address: loop, port: 8080 });
    expect(drive.select(request).verdict).toBe('translate');
  });

  describe('a slot that names an unusable backend', () => {
    test.each([
      ['of another Service', { serviceId: 2 }],
      ['that is gone', { state: 'GONE' }],
      ['that is terminating', { state: 'TERMINATING' }],
      ['that is free', { state: 'FREE' }],
    ] as const)('%s twice in a row is refused', (_, more) => {
      drive.putFrontend({ address: vip, port: 80, rules: { host: { set: drive.putSet(0, [1]) } } });
      backend(1, more);
      expect(drive.select(to)).toMatchObject({ verdict: 'refuse', reason: REASON.stale });
    });

    test('draws a second time before it refuses', () => {
      drive.putFrontend({
        address: vip,
        port: 80,
        rules: { host: { set: drive.putSet(0, [1, 2]) } },
      });
      backend(1);
      backend(2, { serviceId: 2 });
      const choices = many(to, 400);
      const refused = choices.filter((c) => c.verdict === 'refuse').length;
      expect(idsOf(choices.filter((c) => c.verdict === 'translate'))).toEqual([1]);
      // Refused only if both draws name the unusable one: one in four; with a single draw, one in two.
      expect(refused).toBeGreaterThan(50);
      expect(refused).toBeLessThan(155);
    });

    test('is refused where the slot or the block is missing', () => {
      drive.putFrontend({
        address: vip,
        port: 80,
        rules: { host: { set: { block: 5, members: 3, kind: 'random' } } },
      });
      expect(drive.select(to).reason).toBe(REASON.stale);
      const set = { block: 9_000, members: 3, kind: 'random' } as const;
      drive.putFrontend({ address: vip, port: 80, rules: { host: { set } } });
      expect(drive.select(to).reason).toBe(REASON.stale);
    });
  });

  describe('source ranges', () => {
    const client = family === 'IPv4' ? '198.51.100.9' : '2001:db8:ffff::9';
    const stranger = family === 'IPv4' ? '198.51.101.9' : '2001:db8:fffe::9';
    const range = family === 'IPv4' ? '198.51.100.0/24' : '2001:db8:ffff::/48';
    const packet = { ...to, isPacket: true, position: 'outside' } as const;
    const dropped = { verdict: 'drop', reason: REASON.rangesDropped, id: 0 };
    const restrict = (members: readonly number[] = [1, 2]): void => {
      for (const n of [1, 2]) backend(n);
      const set = drive.putSet(0, members);
      drive.putFrontend({
        address: vip,
        port: 80,
        rules: { host: { set, hasSourceRanges: true } },
      });
      drive.putRange(1, range);
    };

    test('admit the packets of sources in one of them, and drop all others', () => {
      restrict();
      expect(drive.select({ ...packet, source: client }).verdict).toBe('translate');
      expect(drive.select({ ...packet, source: stranger })).toMatchObject(dropped);
      drive.putRange(1, `${stranger}/${family === 'IPv4' ? 32 : 128}`);
      expect(drive.select({ ...packet, source: stranger }).verdict).toBe('translate');
    });

    test('are those of the service port, and pods are no exception', () => {
      restrict();
      const wide = family === 'IPv4' ? '0.0.0.0/1' : '2000::/3';
      drive.putRange(2, wide);
      const own = family === 'IPv4' ? '198.51.101.0/24' : '2001:db8:fffe::/48';
      drive.putRange(0, own);
      expect(drive.positionOf(stranger)).toBe('pod');
      for (const position of ['pod', 'host', 'outside'] as const) {
        expect(drive.select({ ...packet, position, source: stranger })).toMatchObject(dropped);
      }
    });

    test('none at all admit no one', () => {
      restrict();
      drive.object.map('fl_range').delete(encodeRangeKey({ serviceId: 1, prefix: range }));
      expect(drive.select({ ...packet, source: client })).toMatchObject(dropped);
    });

    test('also hold while there are no endpoints', () => {
      restrict([]);
      expect(drive.select({ ...packet, source: stranger })).toMatchObject(dropped);
      expect(drive.select({ ...packet, source: client })).toMatchObject({
        verdict: 'refuse',
        reason: REASON.empty,
      });
    });

    test('leave a flow alone that keeps its backend, and hold when it needs another', () => {
      restrict();
      const flow = { id: 2, serviceId: 1, generation: 1 };
      const request = { ...packet, source: stranger, flow };
      expect(drive.select(request)).toMatchObject({ verdict: 'translate', id: 2, isKept: true });
      backend(2, { state: 'GONE' });
      expect(drive.select(request)).toMatchObject(dropped);
    });

    test('are for packets to decide if a socket is not bound, else its address decides', () => {
      restrict();
      expect(drive.select({ ...to, position: 'pod' })).toMatchObject({
        verdict: 'leave',
        reason: REASON.rangesSkipped,
      });
      expect(drive.select({ ...to, bound: client }).verdict).toBe('translate');
      expect(drive.select({ ...to, bound: stranger })).toMatchObject(dropped);
    });

    test('a socket of the node that is not bound will have the node’s address', () => {
      restrict();
      const ask = (node: string | undefined, position: 'host' | 'pod' | 'unknown' = 'host') => {
        const write = followNode(drive.object.map('fl_node'));
        write({ addresses: { [family]: node } } as unknown as Plan['node']);
        return drive.select({ ...to, position });
      };
      const left = { verdict: 'leave', reason: REASON.rangesSkipped };
      expect(ask(undefined), 'not known').toMatchObject(left);
      expect(ask(client).verdict).toBe('translate');
      expect(ask(stranger)).toMatchObject(dropped);
      expect(ask(client, 'pod'), 'of a pod').toMatchObject(left);
      expect(ask(client, 'unknown'), 'of whom is not known').toMatchObject(left);
      expect(drive.select({ ...to, position: 'host', bound: stranger })).toMatchObject(dropped);
    });

    test('of an address are no ranges of the frontends that have none', () => {
      restrict();
      publish();
      expect(drive.select({ ...packet, source: stranger }).verdict).toBe('translate');
    });
  });

  test('a source in a range of pods is a pod’s, and only in its own family', () => {
    const cidr = family === 'IPv4' ? '10.1.0.0/16' : '2001:db8:1::/48';
    drive.putRange(0, cidr);
    expect(drive.positionOf(family === 'IPv4' ? '10.1.2.3' : '2001:db8:1:9::1')).toBe('pod');
    expect(drive.positionOf(family === 'IPv4' ? '10.2.2.3' : '2001:db8:2:9::1')).toBe('outside');
    drive.putRange(0, family === 'IPv4' ? '::/0' : '0.0.0.0/0');
    expect(drive.positionOf(family === 'IPv4' ? '10.2.2.3' : '2001:db8:2:9::1')).toBe('outside');
  });

  describe('masquerade', () => {
    const masquerade = (keepsLocalClient: boolean, isLocal: boolean) => {
      backend(1, { isLocal });
      const set = drive.putSet(0, [1]);
      const host = { set, masquerade: true, keepsLocalClient };
      drive.putFrontend({ address: vip, port: 80, rules: { host } });
      return drive.select(to).masquerade;
    };

    test('applies to every backend, or not to those of this node', () => {
      expect(masquerade(false, true)).toBe(true);
      expect(masquerade(false, false)).toBe(true);
      expect(masquerade(true, false)).toBe(true);
      expect(masquerade(true, true)).toBe(false);
    });
  });

  describe('session affinity', () => {
    const size = 50;
    const ids = Array.from({ length: size }, (_, i) => i + 1);
    const publishSticky = (members = ids, more = {}, block = 0) =>
      drive.putFrontend({
        address: vip,
        port: 80,
        affinitySeconds: 100,
        rules: { host: { set: drive.putSet(block, members) } },
        ...more,
      });
    beforeEach(() => {
      for (const id of ids) backend(id);
    });
    const first = () => drive.select(to).id;

    test('keeps a client on its backend, independently of other clients', () => {
      publishSticky();
      const id = first();
      const again = many();
      expect(idsOf(again)).toEqual([id]);
      expect(again.every((c) => c.byAffinity)).toBe(true);
      const others = Array.from({ length: 40 }, (_, n) =>
        drive.select({ ...to, source: `192.0.2.${100 + n}` }),
      );
      expect(idsOf(others).length).toBeGreaterThan(10);
    });

    test('belongs to the service port, not to the frontend', () => {
      publishSticky();
      drive.putFrontend({
        address: vip,
        port: 81,
        affinitySeconds: 100,
        rules: { host: { set: drive.putSet(0, ids) } },
      });
      expect(drive.select({ to: vip, port: 81 }).id).toBe(first());
    });

    test('expires after its timeout', async () => {
      publishSticky(ids, { affinitySeconds: 1 });
      // Within the timeout, also on a machine with other work.
      const chosen = await until(() => {
        const startedMs = performance.now();
        const ids = idsOf(many(to, 20));
        return performance.now() - startedMs < 1_000 && ids;
      }, '20 connections within the timeout');
      expect(chosen).toHaveLength(1);
      await new Promise((resolve) => setTimeout(resolve, 1_050));
      expect(drive.select(to).byAffinity).toBe(false);
    });

    test('is renewed by each connection', async () => {
      publishSticky(ids, { affinitySeconds: 1 });
      let usedMs = performance.now();
      let id = first();
      for (let renewals = 0; renewals < 4; renewals++) {
        await new Promise((resolve) => setTimeout(resolve, 400));
        const askedMs = performance.now();
        const choice = drive.select(to);
        // With other work on the machine a pause may be as long as the timeout, and proves nothing: it begins anew.
        if (performance.now() - usedMs < 900)
          expect(choice).toMatchObject({ id, byAffinity: true });
        else renewals = -1;
        [id, usedMs] = [choice.id, askedMs];
      }
    });

    test.each([
      ['terminates', { state: 'TERMINATING' }],
      ['is gone', { state: 'GONE' }],
      ['became another of the same Service', { generation: 2 }],
    ] as const)('leaves a backend that %s', (_, more) => {
      publishSticky();
      const id = first();
      publishSticky(
        ids.filter((other) => other !== id || more === undefined),
        {},
        20,
      );
      backend(id, more);
      const choice = drive.select(to);
      expect(choice).toMatchObject({ verdict: 'translate', byAffinity: false });
      expect(choice.id).not.toBe(id);
    });

    test('selects anew if the id is in the set again with another generation', () => {
      publishSticky([7]);
      expect(first()).toBe(7);
      backend(7, { generation: 2 });
      expect(drive.select(to)).toMatchObject({ id: 7, byAffinity: false });
      expect(drive.select(to)).toMatchObject({ id: 7, byAffinity: true });
    });

    test('applies only to members of the set of this traffic rule', () => {
      const rules = {
        host: { set: drive.putSet(0, [1, 2, 3]) },
        pod: { set: drive.putSet(8, [40, 41]) },
      };
      publishSticky([], { rules });
      const id = first();
      const outside = { ...to, position: 'pod' } as const;
      expect(drive.select(outside)).toMatchObject({ byAffinity: false });
      expect([40, 41]).toContain(drive.select(outside).id);
      expect(drive.select(to)).toMatchObject({ byAffinity: false });
      expect([1, 2, 3]).toContain(id);
    });

    test('finds exactly the members of sets of every size', () => {
      for (const slots of [1, 2, 3, 14, 15, 16, 17, 30, 31, 32, 33, 46, 47, 48, 49]) {
        for (const member of [1, Math.ceil(slots / 2), slots]) {
          const source = `192.0.${slots}.${member}`;
          publishSticky([member], {}, 40);
          expect(drive.select({ ...to, source }).id).toBe(member);
          publishSticky(ids.slice(0, slots));
          const kept = drive.select({ ...to, source });
          expect(kept, `${member} of ${slots}`).toMatchObject({ id: member, byAffinity: true });
          publishSticky(ids.filter((id) => id !== member).slice(0, slots), {}, 20);
          expect(drive.select({ ...to, source }).byAffinity).toBe(false);
        }
      }
    });

    test('finds members that occur several times', () => {
      publishSticky([5]);
      first();
      publishSticky([1, 1, 1, 2, 5, 5, 5, 5, 9]);
      expect(drive.select(to)).toMatchObject({ id: 5, byAffinity: true });
    });

    test('is not recorded for a socket that is left alone', () => {
      publishSticky();
      drive.select({ ...to, sourceIsLoopback: true });
      expect(drive.object.map('fl_affinity').readAll().count).toBe(0);
    });
  });

  describe('the backend a UDP socket used last', () => {
    const flow = { id: 3, serviceId: 1, generation: 1 };
    beforeEach(() => publish({ protocol: 'UDP' }));
    const send = () => drive.select({ ...to, protocol: 'UDP', flow });

    test('is kept, in the set or not, if active or terminating', () => {
      expect(send()).toMatchObject({ verdict: 'translate', id: 3, isKept: true });
      backend(3, { state: 'TERMINATING' });
      expect(send()).toMatchObject({ id: 3, isKept: true });
    });

    test.each([
      ['gone', { state: 'GONE' }],
      ['free', { state: 'FREE' }],
      ['of another generation', { generation: 2 }],
      ['of another Service', { serviceId: 2 }],
    ] as const)('is left when it is %s', (_, more) => {
      backend(3, more);
      const choice = send();
      expect(choice).toMatchObject({ verdict: 'translate', isKept: false });
      expect([1, 2]).toContain(choice.id);
    });

    test('is not used once the set is empty', () => {
      drive.putFrontend({ address: vip, port: 80, protocol: 'UDP' });
      expect(send()).toMatchObject({ verdict: 'refuse', reason: REASON.empty });
    });

    test('does not renew session affinity', () => {
      publish({ protocol: 'UDP', affinitySeconds: 100 });
      send();
      expect(drive.object.map('fl_affinity').readAll().count).toBe(0);
    });
  });
});

test('both families share the id space of backends', () => {
  drive.putBackend({ id: 1, address: '10.0.0.1', port: 1 });
  drive.putBackend({ id: 2, address: 'fd00::2', port: 2 });
  drive.putFrontend({
    address: '10.96.0.1',
    port: 80,
    rules: { host: { set: drive.putSet(0, [2]) } },
  });
  expect(drive.select({ to: '10.96.0.1', port: 80 }).reason).toBe(REASON.stale);
  expect(drive.object.map('fl_backend6').get(encodeU32(2))).toBeDefined();
});
