// SPDX-License-Identifier: Apache-2.0
// What a list keeps while it comes in, and what is made of it when equal versions turn out to prove nothing.
import { expect, test } from 'vitest';
import { ownNode, SLICES } from '../../../../../src/source/apiserver/kinds.ts';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { Listing } from '../../../../../src/source/apiserver/watch/list.ts';
import { Store } from '../../../../../src/source/apiserver/watch/store.ts';
import { until } from '../../../../support/until.ts';
import { errorLine } from '../support/fake-api-server.ts';
import { follow, PATH, serverWith } from '../support/harness.ts';
import { slice } from '../support/objects.ts';
import { idle } from '../support/traffic.ts';

const observed = (
  name: string,
  version: string,
  object: Readonly<Record<string, unknown>> = {},
) => ({
  ref: { kind: 'EndpointSlice', namespace: 'd', name } as const,
  version,
  uid: `uid-${name}`,
  object,
});

function storeWith(...names: string[]): Store {
  const store = new Store(SLICES);
  const first = new Listing(store, SLICES, false);
  for (const name of names) expect(first.take(observed(name, '5'), true)?.type).toBe('put');
  const { objects } = first;
  const replaced = store.replace({ objects, version: '100', isConfirmation: false });
  expect(replaced).toEqual({ changes: [], suspicion: undefined, isDoubtful: false });
  return store;
}

test('the first list of a kind keeps nothing of its own', () => {
  const store = new Store(SLICES);
  const first = new Listing(store, SLICES, false);
  first.take(observed('a', '5'), true);
  expect(first.objects).toBe(store.known);
  expect(new Listing(store, SLICES, false).objects).not.toBe(store.known);
});

test('a later list keeps no object that is as it was', () => {
  const store = storeWith('a', 'b');
  const later = new Listing(store, SLICES, false);
  for (const one of [observed('a', '5'), observed('b', '6'), observed('c', '7')]) {
    expect(later.take(one, true)).toBeUndefined();
  }
  expect(later.objects.get('d/a')).toBe(store.known.get('d/a'));
  expect(later.objects.get('d/b')).toHaveProperty('object');
  const { objects } = later;
  const { changes } = store.replace({ objects, version: '110', isConfirmation: false });
  expect(changes.map(({ type, ref }) => `${type} ${ref.name}`)).toEqual(['put b', 'put c']);
});

test('what was held and is shown again as it was is held no more', () => {
  const store = storeWith('a', 'b', 'c', 'd', 'e');
  const list = (...names: string[]) => {
    const listing = new Listing(store, SLICES, false);
    for (const name of names) listing.take(observed(name, '5'), true);
    return store.replace({ objects: listing.objects, version: '110', isConfirmation: false });
  };
  expect(list().suspicion?.held).toBe(5);
  expect(list('a', 'b', 'c').changes).toEqual([]);
  expect(store.held).toBe(2);
});

test('from a server that is doubted everything is kept', () => {
  const store = storeWith('a');
  const later = new Listing(store, SLICES, true);
  later.take(observed('a', '5'), true);
  expect(later.objects.get('d/a')).toHaveProperty('object');
});

test('of a kind that compares contents everything is kept', () => {
  const node = ownNode('d');
  const store = new Store(node);
  const put = () => {
    const listing = new Listing(store, node, false);
    listing.take(observed('d', '5', { metadata: { name: 'd' } }), true);
    const { objects } = listing;
    store.replace({ objects, version: '100', isConfirmation: false });
    return objects;
  };
  put();
  expect(put().get('d/d')).toHaveProperty('object');
});

test('a list that turns out to be of an older server is asked for again, and then told as a whole', () => {
  const store = storeWith('a', 'b');
  const list = (version: string) => {
    const listing = new Listing(store, SLICES, false);
    for (const name of ['a', 'b']) listing.take(observed(name, '5'), true);
    const { objects } = listing;
    return store.replace({ objects, version, isConfirmation: false });
  };
  expect(list('50')).toEqual({ changes: [], suspicion: undefined, isDoubtful: true });
  const again = list('50');
  expect(again.isDoubtful).toBe(false);
  expect(again.changes.map(({ ref }) => ref.name)).toEqual(['a', 'b']);
});

async function followed() {
  const server = await serverWith('a', 'b');
  server.version = 300;
  const following = follow(server);
  await following.watching();
  following.events.length = 0;
  following.clock.advance(LIMITS.shortLifeMs);
  server.version = 200;
  return { server, following };
}

test('if the older server was expected, one list is enough', async () => {
  const { following } = await followed();
  following.reflector.forceRelist();
  await following.waitFor('put default/b');
  await following.watching();
  expect(following.reflector.counters.ends.disorder).toBe(0);
  expect(following.events).toEqual(['put default/a', 'put default/b']);
});

test('the follower lists again by itself, after a pause', async () => {
  const { server, following } = await followed();
  server.send(PATH, errorLine(410, 'expired'));
  await until(() => following.reflector.status().state === 'waiting', 'a pause');
  expect(following.events).toEqual([]);
  expect(following.reflector.counters.ends.disorder).toBe(1);
  await following.passPause();
  await following.waitFor('put default/b');
  await following.watching();
  await idle();
  expect(following.events).toEqual(['put default/a', 'put default/b']);
  server.put(PATH, slice('c'));
  await following.waitFor('put default/c');
});
