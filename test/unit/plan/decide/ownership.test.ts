// SPDX-License-Identifier: Apache-2.0
// Who has a frontend that several Services ask for.
import { describe, expect, test } from 'vitest';
import type { ObjectChange } from '../../../../src/model/types.ts';
import { createPlanner } from '../../../support/plan/planner.ts';
import { SETTINGS, service } from '../support.ts';

const OLD = '2026-01-01T00:00:00Z';
const NEW = '2026-01-02T00:00:00Z';

const asks = (name: string, creationTimestamp?: string, port = 80): ObjectChange =>
  service(name, 1, { ports: [{ port }] }, { metadata: { creationTimestamp } });

const removed = (name: string): ObjectChange => ({ type: 'remove', ref: asks(name).ref });

/** The Service that has 10.96.0.1:80 after these batches. */
function ownerAfter(...batches: readonly (readonly ObjectChange[])[]): string | undefined {
  const planner = createPlanner(SETTINGS);
  for (const batch of batches) planner.apply(batch);
  const owners = [...planner.current().services.values()].filter(({ ports }) =>
    ports.some(({ frontends }) => frontends.some(({ port }) => port === 80)),
  );
  expect(owners.length).toBeLessThan(2);
  return owners[0]?.name;
}

describe('the owner in an ownership conflict', () => {
  test('without ages is the one that serves, whatever the names are', () => {
    expect(ownerAfter([asks('web')], [asks('aaa')])).toBe('web');
    expect(ownerAfter([asks('web')], [asks('aaa')], [asks('web')], [asks('aaa')])).toBe('web');
  });

  test('keeps it when its own object changes in the batch that brings the other', () => {
    expect(ownerAfter([asks('web')], [asks('aaa'), asks('web')])).toBe('web');
    expect(ownerAfter([asks('web')], [asks('web'), asks('aaa')])).toBe('web');
  });

  test('is the first by name where none serves yet', () => {
    expect(ownerAfter([asks('web'), asks('aaa')])).toBe('aaa');
    expect(ownerAfter([asks('web')], [removed('web'), asks('ccc'), asks('bbb')])).toBe('bbb');
  });

  test('loses it with its object, or by no longer asking for it', () => {
    expect(ownerAfter([asks('web')], [asks('aaa')], [removed('web')])).toBe('aaa');
    expect(ownerAfter([asks('web')], [asks('aaa')], [asks('web', undefined, 81)])).toBe('aaa');
    const back = [asks('web')];
    expect(ownerAfter([asks('web')], [asks('aaa')], [removed('web')], back)).toBe('aaa');
  });

  test('is the older one where both have an age, on every node alike', () => {
    expect(ownerAfter([asks('web', NEW)], [asks('aaa', OLD)])).toBe('aaa');
    expect(ownerAfter([asks('web', OLD)], [asks('aaa', NEW)])).toBe('web');
    expect(ownerAfter([asks('web', OLD)], [asks('aaa', OLD)])).toBe('aaa');
  });

  test('an age that a later manifest claims takes nothing from one without', () => {
    expect(ownerAfter([asks('web')], [asks('aaa', '1970-01-01T00:00:00Z')])).toBe('web');
  });

  test('after a restart is the one that is programmed', () => {
    const planner = createPlanner(SETTINGS);
    planner.apply([asks('web'), asks('aaa')]);
    expect(planner.hasConflicts()).toBe(true);
    planner.adopt((frontend) => (frontend === '10.96.0.1:80/TCP' ? 'default/web' : undefined));
    const { plan, changed } = planner.apply([]);
    expect([...changed]).toEqual(['default/aaa', 'default/web']);
    expect(plan.services.get('default/web')?.ports[0]?.frontends).toHaveLength(1);
    expect(plan.services.get('default/aaa')?.ports[0]?.frontends).toHaveLength(0);
  });
});
