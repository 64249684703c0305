// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import {
  createTraitsShare,
  MAX_NODES,
  MAX_TRAITS_PER_NODE,
} from '../../../../src/model/endpoints/traits.ts';
import type { EndpointTraits } from '../../../../src/model/types.ts';

const traits = (patch: Partial<EndpointTraits> = {}): EndpointTraits => ({
  isReady: true,
  isServing: true,
  isTerminating: false,
  nodeName: 'n1',
  zone: 'a',
  zoneHints: ['a'],
  nodeHints: [],
  ...patch,
});

describe('createTraitsShare', () => {
  it('equal traits are one record', () => {
    const share = createTraitsShare();
    const first = traits();
    expect(share(first)).toBe(first);
    expect(share(traits())).toBe(first);
    expect(createTraitsShare()(traits())).not.toBe(first);
  });

  it.each<Partial<EndpointTraits>>([
    { isReady: false },
    { isServing: false },
    { isTerminating: true },
    { nodeName: 'n2' },
    { nodeName: undefined },
    { zone: 'b' },
    { zone: undefined },
    { zoneHints: ['b'] },
    { zoneHints: [] },
    { zoneHints: ['a', 'b'] },
    { nodeHints: ['n1'] },
  ])('%j is another', (patch) => {
    const share = createTraitsShare();
    share(traits());
    expect(share(traits(patch))).toEqual(traits(patch));
    expect(share(traits())).toEqual(traits());
  });

  it('forgets a node of which too much is said, and goes on sharing', () => {
    const share = createTraitsShare();
    const first = share(traits());
    for (let n = 1; n < MAX_TRAITS_PER_NODE; n += 1) share(traits({ zone: `z${n}` }));
    expect(share(traits())).toBe(first);
    share(traits({ zone: 'one too many' }));
    const second = share(traits());
    expect(second).not.toBe(first);
    expect(share(traits())).toBe(second);
  });

  it('forgets all when there are too many nodes', () => {
    const share = createTraitsShare();
    const first = share(traits());
    for (let n = 2; n <= MAX_NODES; n += 1) share(traits({ nodeName: `n${n}` }));
    expect(share(traits())).toBe(first);
    share(traits({ nodeName: 'one too many' }));
    expect(share(traits())).not.toBe(first);
  });
});
