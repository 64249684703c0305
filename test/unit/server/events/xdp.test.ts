// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import type { XdpView } from '../../../../src/dataplane/snapshot.ts';
import { followXdp } from '../../../../src/server/events/xdp.ts';

test('a device that loses XDP is an Event of the Node, once for each reason', () => {
  const pending: (() => void)[] = [];
  const recorded: unknown[] = [];
  let devices: readonly (XdpView & { readonly device: string })[] = [];
  const become = (state: XdpView['state'], reason: string): void => {
    devices = [{ device: 'eth0', state, reason, sent: 0, lost: 0 }];
    pending.shift()?.();
  };
  const end = followXdp({
    devices: () => devices,
    record: (...event) => recorded.push(event),
    nodeName: 'n1',
    clock: {
      after: (_, action) => {
        pending.push(action);
        return () => pending.splice(pending.indexOf(action), 1);
      },
    },
  });
  become('on', '');
  expect(recorded).toEqual([]);
  become('refused', 'lost frames');
  become('trial', '');
  become('refused', 'lost frames');
  expect(recorded).toEqual([
    ['XDPRefused', { kind: 'Node', name: 'n1' }, 'XDP is not used on eth0: lost frames'],
  ]);
  become('refused', 'no frame came in');
  expect(recorded).toHaveLength(2);
  end();
  expect(pending).toEqual([]);
});
