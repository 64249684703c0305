// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { resolveConfig } from '../../../../../src/config/resolve.ts';
import { LARGEST_TABLE } from '../../../../../src/config/settings/programs.ts';
import { FIRST_CONNECTIONS } from '../../../../../src/engines/bpf/conn/growth.ts';
import { maxEntries, sizeFor } from '../../../../../src/engines/bpf/layout/sizes.ts';

test('a table sizes all maps behind it; tables not named keep their size', () => {
  expect(maxEntries({ frontends: 4, backends: 10 })).toEqual({
    ...maxEntries({}),
    fl_frontend4: 4,
    fl_frontend6: 4,
    fl_frontend: 9,
    fl_fe_stat: 9,
    fl_traffic: 9,
    fl_ping: 8,
    fl_backend4: 11,
    fl_backend6: 11,
    fl_be_stat: 11,
    fl_backend_node: 11,
    fl_be_flows: 11,
  });
});

test('the maps of connections follow from how many there may be', () => {
  expect(maxEntries({ flows: 595 })).toMatchObject({
    ...{ fl_client4: 100, fl_conn4: 700, fl_conn_traf4: 700, fl_reply4: 237 },
    ...{ fl_client6: 100, fl_conn6: 700, fl_conn_traf6: 700, fl_reply6: 237 },
  });
  expect(maxEntries({ flows: 1 })).toMatchObject({ fl_client4: 2, fl_conn4: 14, fl_reply4: 4 });
  expect(maxEntries({})).toEqual(maxEntries({ flows: FIRST_CONNECTIONS }));
  expect(sizeFor('fl_client4', 100)).toEqual({ table: 'flows', entries: 595 });
});

test('every table that --map-size takes sizes a map', () => {
  const tables = ['frontends', 'backends', 'service-ports', 'slot-blocks', 'affinity'];
  for (const name of [...tables, 'source-ranges', 'flows']) {
    const flags = { manifests: '/m', 'map-size': `${name}=7` };
    const { own } = resolveConfig({ flags, hostname: 'n1' });
    expect(Object.values(maxEntries(own.mapSizes)).length, name).toBeGreaterThan(0);
  }
});

test.each([
  'frontends',
  'frontends=0',
  'frontends=-1',
  `frontends=${LARGEST_TABLE + 1}`,
  'sockets=3',
])('--map-size %s is refused', (size) => {
  const flags = { manifests: '/m', 'map-size': size };
  expect(() => resolveConfig({ flags, hostname: 'n1' })).toThrow(/--map-size/);
});
