// SPDX-License-Identifier: Apache-2.0
// A sync of more Services than a batch has: what one Service loses and another gets is never absent in between.
import { expect, test } from 'vitest';
import { decodeFrontendKey } from '../../../../src/dataplane/bpf/maps/layout.ts';
import { frontendText } from '../../../../src/dataplane/entry.ts';
import { memoryDataplane, memoryTables } from '../../../support/dataplane/memory-dataplane.ts';
import { backend, clusterIp, planOf, servicePort } from './plans.ts';

const MOVED = '10.96.9.9';
const others = Array.from({ length: 120 }, (_, n) =>
  servicePort(`s${n}`, [clusterIp(`10.96.0.${n}`)], [backend(`10.1.0.${n}`)]),
);
/** The Service of that name alone has the frontend. */
const deleted = (name: string) =>
  planOf(servicePort(name, [clusterIp(MOVED)], [backend('10.1.9.9')]), ...others);
/** Both Services stay. */
function given(owner: string) {
  const both = ['old', 'new'].map((name, n) => {
    const own = clusterIp(`10.96.8.${n}`);
    const frontends = name === owner ? [own, clusterIp(MOVED)] : [own];
    return servicePort(name, frontends, [backend('10.1.9.9')]);
  });
  return planOf(...both.slice(0, 1), ...others, ...both.slice(1));
}

test.each([
  ['all', 'deleted and created under another name', deleted],
  ['named', 'deleted and created under another name', deleted],
  ['all', 'that gives one to another Service', given],
  ['named', 'that gives one to another Service', given],
] as const)(
  '%s: no frontend of a Service %s is missing in between',
  async (which, _how, withMoved) => {
    const tables = memoryTables();
    const dataplane = memoryDataplane(tables);
    await dataplane.sync(withMoved('old'), 'all', []);
    const table = tables.frontend.IPv4;
    const remove = table.delete.bind(table);
    const removed: string[] = [];
    Object.assign(table, {
      delete: (keys: readonly Uint8Array[]) => {
        removed.push(...keys.map((key) => frontendText(decodeFrontendKey(key, 'IPv4'))));
        return remove(keys);
      },
    });
    const names = ['old', ...others.map(({ name }) => name), 'new'];
    const changed = which === 'all' ? 'all' : names.map((name) => `default/${name}`);
    const { failed } = await dataplane.sync(withMoved('new'), changed, []);
    expect(failed).toEqual([]);
    expect(removed).toEqual([]);
    const { frontends } = await dataplane.snapshot();
    expect(frontends.find(({ id }) => id.address === MOVED)?.port.name).toBe('new');
  },
);
