// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import type { TableFill } from '../../../../src/engines/snapshot.ts';
import { followFullTables } from '../../../../src/server/events/full-tables.ts';

test('a full table of flows is an Event of the Node for as long as it is full', () => {
  const pending: (() => void)[] = [];
  const recorded: unknown[] = [];
  let tables: readonly TableFill[] = [{ name: 'fl_conn4', used: 7, capacity: 8 }];
  const end = followFullTables({
    tables: () => tables,
    record: (...event) => recorded.push(event),
    nodeName: 'n1',
    clock: {
      after: (_, action) => {
        pending.push(action);
        return () => pending.splice(pending.indexOf(action), 1);
      },
    },
  });
  const look = (): void => pending.shift()?.();
  look();
  expect(recorded).toEqual([]);
  tables = [{ name: 'fl_conn4', used: 8, capacity: 8, problem: 'fl_conn4 is full' }];
  look();
  expect(recorded).toEqual([['MapFull', { kind: 'Node', name: 'n1' }, 'fl_conn4 is full']]);
  tables = [];
  look();
  expect(recorded).toHaveLength(1);
  end();
  expect(pending).toEqual([]);
});
