// SPDX-License-Identifier: Apache-2.0
// The maps that are removed with the packet layer are all those that it has.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { PACKET_MAPS } from '../../../../../src/dataplane/bpf/packet/layer.ts';

test('PACKET_MAPS has the maps of bpf/packet/maps.h', () => {
  const header = new URL('../../../../../bpf/packet/maps.h', import.meta.url);
  const defined = [...readFileSync(header, 'utf8').matchAll(/^\} (fl_\w+) SEC/gm)];
  expect(PACKET_MAPS.toSorted()).toEqual(defined.map((match) => match[1]).toSorted());
});
