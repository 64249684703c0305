// SPDX-License-Identifier: Apache-2.0
// The maps that are removed with the packet layer are all those that it has.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { PACKET_MAPS } from '../../../../../src/engines/bpf/kernel/packet/layer.ts';

test('PACKET_MAPS has the maps of bpf/packet/maps.h and of bpf/packet/conn/maps.h', () => {
  const defined = ['maps.h', 'conn/maps.h'].flatMap((name) => {
    const header = new URL(`../../../../../bpf/packet/${name}`, import.meta.url);
    const text = readFileSync(header, 'utf8');
    return [...text.matchAll(/^(?:\} |CONN_ARRAY\()(fl_\w+)(?: SEC|,)/gm)].map((match) => match[1]);
  });
  expect(PACKET_MAPS.toSorted()).toEqual(defined.toSorted());
});
