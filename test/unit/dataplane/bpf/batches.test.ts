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
const withMoved = (name: string) =>
  planOf(servicePort(name, [clusterIp(MOVED)], [backend('10.1.9.9')]), ...others);

test.each(['all', 'named'])(
  'a Service deleted and created under another name keeps its frontends (%s)',
  async (which) => {
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
