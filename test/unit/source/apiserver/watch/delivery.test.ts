// SPDX-License-Identifier: Apache-2.0
// Handlers that throw, and batches with pauses between them.
import { expect, test } from 'vitest';
import type { ObjectChange } from '../../../../../src/model/types.ts';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { Delivery } from '../../../../../src/source/apiserver/watch/delivery.ts';
import { until } from '../../../../support/until.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { follow, PATH, serverWith } from '../support/harness.ts';
import { slice } from '../support/objects.ts';

const put = (name: string, object: unknown = {}): ObjectChange => ({
  type: 'put',
  ref: { kind: 'Service', namespace: 'd', name },
  object,
});

function delivery(isBad: (change: ObjectChange) => boolean) {
  const clock = new FakeClock();
  const taken: string[] = [];
  const warned: unknown[] = [];
  const made = new Delivery({
    clock,
    log: { warn: (fields: unknown) => warned.push(fields) },
    onChanges(changes) {
      if (changes.some(isBad)) throw new Error('cannot take it');
      for (const { ref } of changes) taken.push(ref.name);
    },
  });
  return { clock, taken, warned, delivery: made };
}

test('one bad object of many: the others are delivered, it is named, counted and delivered again', async () => {
  let isBroken = true;
  const { clock, taken, warned, ...rest } = delivery(({ ref }) => isBroken && ref.name === 'b');
  await rest.delivery.deliver([put('a'), put('b'), put('c')]);
  expect(taken).toEqual(['a', 'c']);
  expect(warned).toEqual([{ object: 'Service d/b', reason: 'cannot take it' }]);
  expect([rest.delivery.errors, rest.delivery.waiting]).toEqual([1, 1]);
  clock.advance(400);
  expect(rest.delivery.errors).toBe(2);
  isBroken = false;
  expect(clock.delaysMs()).toEqual([800]);
  clock.advance(800);
  expect(taken).toEqual(['a', 'c', 'b']);
  expect(rest.delivery.waiting).toBe(0);
  expect(clock.delaysMs()).toEqual([]);
});

test('a newer change of the same object replaces the failed one', async () => {
  const { clock, taken, ...rest } = delivery(
    (change) => change.type === 'put' && change.object === 'bad',
  );
  await rest.delivery.deliver([put('b', 'bad')]);
  await rest.delivery.deliver([put('b', 'good')]);
  expect(taken).toEqual(['b']);
  expect(clock.delaysMs()).toEqual([]);
});

test('many changes come in batches, with turns of the event loop between them', async () => {
  const sizes: number[] = [];
  let turns = 0;
  const made = new Delivery({
    clock: new FakeClock(),
    log: { warn: () => {} },
    onChanges: (changes) => {
      sizes.push(changes.length);
      setImmediate(() => {
        turns += 1;
      });
    },
  });
  await made.deliver(Array.from({ length: 600 }, (_, index) => put(`s${index}`)));
  expect(sizes).toEqual([LIMITS.batchChanges, LIMITS.batchChanges, 100]);
  expect(turns).toBeGreaterThanOrEqual(2);
  await made.deliver([]);
  expect(sizes).toHaveLength(3);
});

test('nothing is delivered after close()', async () => {
  const { clock, taken, ...rest } = delivery(({ ref }) => ref.name === 'b');
  await rest.delivery.deliver([put('b')]);
  rest.delivery.close();
  await rest.delivery.deliver([put('a')]);
  clock.advance(60_000);
  expect(taken).toEqual([]);
  expect(rest.delivery.errors).toBe(1);
});

test('a handler that always throws does not end the stream', async () => {
  const server = await serverWith('a');
  const following = follow(server, {
    onChanges() {
      throw new Error('never');
    },
  });
  await following.watching();
  server.put(PATH, slice('b'));
  await until(() => following.delivery.waiting === 2, 'both refused');
  expect(following.reflector.status().state).toBe('watching');
  expect(server.seen).toHaveLength(1);
});
