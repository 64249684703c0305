// SPDX-License-Identifier: Apache-2.0
// What is attached to a device at tc: tcx programs in their order with their links, the clsact filter at a priority
// and handle, and the device that a link belongs to.
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { type ChildBody, inChild } from './support/child.ts';

import { missing } from './support/fixture.ts';
import { makeBpffs, makeNetns } from './support/resources.ts';

const look: ChildBody<{ fixture: string; pin: string }, unknown> = (
  native,
  { fixture, pin },
  require,
) => {
  const { execFileSync } = require('node:child_process');
  const env = { ...process.env };
  delete env['LD_PRELOAD'];
  const text = execFileSync('ip', ['-j', 'link', 'show', 'v0'], { env });
  const ifindex = JSON.parse(String(text))[0].ifindex;
  const object = native.openObject(require('node:fs').readFileSync(fixture));
  object.setAutoload('either_connect', false);
  object.load();
  const [first, second] = [object.program('first_tc'), object.program('second_tc')];
  const code = (call: () => unknown) => {
    try {
      return call();
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  const empty = native.tcxPrograms(ifindex, 'ingress');
  const one = first.attachTc(ifindex, 'ingress');
  const two = second.attachTc(ifindex, 'ingress', { before: 0 });
  const programs = native.tcxPrograms(ifindex, 'ingress');
  const expected = [
    { programId: second.info.id, linkId: two.id, name: 'second_tc' },
    { programId: first.info.id, linkId: one.id, name: 'first_tc' },
  ];
  const egress = native.tcxPrograms(ifindex, 'egress');
  const isOfDevice = one.ifindex === ifindex;
  one.pin(pin);
  const filterBefore = native.tcFilter(ifindex, 'egress');
  first.attachTc(ifindex, 'egress', { forceClsact: true, priority: 7, handle: 9 });
  const options = { priority: 7, handle: 9 };
  const filter = native.tcFilter(ifindex, 'egress', options) === first.info.id;
  const other = [
    native.tcFilter(ifindex, 'egress'),
    native.tcFilter(ifindex, 'ingress', options),
    native.tcFilter(ifindex, 'egress', { priority: 7, handle: 10 }),
  ];
  native.removeTcFilter(ifindex, 'egress', options);
  native.removeTcFilter(ifindex, 'egress', options);
  const removed = native.tcFilter(ifindex, 'egress', options);
  execFileSync('ip', ['link', 'del', 'v0'], { env });
  const gone = native.openPinnedLink(pin).ifindex;
  require('node:fs').unlinkSync(pin);
  return {
    empty,
    isInOrder: JSON.stringify(programs) === JSON.stringify(expected),
    egress,
    isOfDevice,
    filterBefore,
    filter,
    other,
    removed,
    gone,
    missingDevice: code(() => native.tcxPrograms(9999, 'ingress')),
    missingFilter: code(() => native.tcFilter(9999, 'ingress')),
    removeMissing: code(() => native.removeTcFilter(9999, 'ingress')),
    wrongDirection: code(() => native.tcxPrograms(ifindex, 'both' as never)),
    noDevice: code(() => native.tcFilter(0, 'ingress')),
  };
};

const fixturePath = fileURLToPath(new URL('../../../build/test/fixture.bpf.o', import.meta.url));

describe.skipIf(missing !== undefined)('tc of a device', () => {
  test('tells programs, links and filters', async () => {
    const [netns, bpffs] = [makeNetns(), makeBpffs()];
    try {
      const input = { fixture: fixturePath, pin: `${bpffs.path}/first` };
      expect(await inChild(look, input, netns.path)).toEqual({
        empty: [],
        isInOrder: true,
        egress: [],
        isOfDevice: true,
        filterBefore: 0,
        filter: true,
        other: [0, 0, 0],
        removed: 0,
        gone: 0,
        missingDevice: 'ENODEV',
        missingFilter: 0,
        removeMissing: undefined,
        wrongDirection: 'ARGUMENT',
        noDevice: 'ARGUMENT',
      });
    } finally {
      netns.release();
      bpffs.release();
    }
  });
});
