// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { projectSlice } from '../../../src/model/endpoints/slice.ts';
import { projectService } from '../../../src/model/service/service.ts';
import { createListShare, createSharing, MAX_LISTS } from '../../../src/model/sharing.ts';
import { service, slice } from '../plan/support.ts';

describe('createSharing', () => {
  const portsOf = (sharing = createSharing()) => {
    const read = (spec: object) => {
      const { ref, object } = service('a', 1, spec);
      return projectService(ref, object, sharing).value?.ports;
    };
    return read;
  };

  it('Services with the same ports have one list of them', () => {
    const read = portsOf();
    const ports = read({});
    expect(ports).toHaveLength(1);
    expect(read({})).toBe(ports);
    expect(portsOf()({})).not.toBe(ports);
  });

  it.each<[string, object]>([
    ['name', { name: 'x', port: 80, protocol: 'TCP' }],
    ['number', { name: 'http', port: 81, protocol: 'TCP' }],
    ['protocol', { name: 'http', port: 80, protocol: 'UDP' }],
    ['NodePort', { name: 'http', port: 80, protocol: 'TCP', nodePort: 30080 }],
  ])('ports that differ in %s are others', (_, port) => {
    const read = portsOf();
    const [usual] = read({}) ?? [];
    expect(read({ ports: [port] })).not.toEqual([usual]);
    expect(read({ ports: [port] })).toMatchObject([port]);
  });

  it('where a port stands counts: it is named in rejections', () => {
    const read = portsOf();
    const good = { name: 'http', port: 80, protocol: 'TCP' };
    expect(read({ ports: [good] })).toMatchObject([{ index: 0 }]);
    expect(read({ ports: ['bad', good] })).toMatchObject([{ index: 1 }]);
  });

  it('slices with the same ports have one list, and equal endpoints one record', () => {
    const sharing = createSharing();
    const read = (address: string, patch: object = {}) => {
      const endpoint = { addresses: [address], nodeName: 'n1' };
      const { ref, object } = slice('a', [endpoint], patch);
      const { value } = projectSlice(ref, object, sharing);
      if (value === undefined) throw new Error('skipped');
      return value;
    };
    const [a, b] = [read('10.1.1.5'), read('10.1.1.6')];
    expect(b.ports).toBe(a.ports);
    expect(b.traits[0]).toBe(a.traits[0]);
    for (const port of [
      { name: 'x', port: 8080, protocol: 'TCP' },
      { name: 'http', port: 8081, protocol: 'TCP' },
      { name: 'http', port: 8080, protocol: 'UDP' },
    ]) {
      expect(read('10.1.1.5', { ports: [port] }).ports).toEqual([port]);
    }
  });
});

describe('createListShare', () => {
  it('tells lists apart by all of their items, and leaves long ones alone', () => {
    const share = createListShare<number>(String);
    const first = share([1, 2]);
    expect(share([1, 2])).toBe(first);
    expect(share([1])).toEqual([1]);
    expect(share([12])).toEqual([12]);
    const long = [1, 2, 3, 4, 5];
    expect(share(long)).toBe(long);
    expect(share([...long])).not.toBe(long);
  });

  it('forgets all when full, and goes on sharing', () => {
    const share = createListShare<number>(String);
    const first = share([0]);
    for (let n = 1; n < MAX_LISTS; n += 1) share([n]);
    expect(share([0])).toBe(first);
    share([MAX_LISTS]);
    const second = share([0]);
    expect(second).not.toBe(first);
    expect(share([0])).toBe(second);
  });
});
