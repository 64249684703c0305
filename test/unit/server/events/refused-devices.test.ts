// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import type { EarlyView } from '../../../../src/engines/snapshot.ts';
import { followRefusedDevices } from '../../../../src/server/events/refused-devices.ts';

type Device = EarlyView & { readonly device: string };

function follow() {
  const pending: (() => void)[] = [];
  const notes: string[] = [];
  let devices: readonly Device[] = [];
  const end = followRefusedDevices({
    devices: () => devices,
    record: (reason, target, note) => {
      expect([reason, target]).toEqual(['XDPRefused', { kind: 'Node', name: 'n1' }]);
      notes.push(note);
    },
    nodeName: 'n1',
    clock: {
      after: (_, action) => {
        pending.push(action);
        return () => pending.splice(pending.indexOf(action), 1);
      },
    },
  });
  /** What is said until the next look: the devices that are refused, with the reason. */
  const look = (
    refused: Readonly<Record<string, string>>,
    state: EarlyView['state'] = 'refused',
  ) => {
    devices = Object.entries(refused).map(([device, reason]) => ({
      ...{ device, state, reason, sent: 0, lost: 0 },
    }));
    pending.shift()?.();
    return notes.splice(0);
  };
  return { look, end, pending };
}

test('a device that loses XDP is an Event of the Node, once for each reason', () => {
  const { look, end, pending } = follow();
  expect(look({ eth0: '' }, 'on')).toEqual([]);
  expect(look({ eth0: 'lost frames' })).toEqual([]);
  expect(look({ eth0: '' }, 'trial')).toEqual(['XDP is not used on eth0: lost frames']);
  look({ eth0: 'lost frames' });
  expect(look({ eth0: 'lost frames' })).toEqual([]);
  look({ eth0: 'no frame came in' });
  expect(look({ eth0: 'no frame came in' })).toEqual(['XDP is not used on eth0: no frame came in']);
  end();
  expect(pending).toEqual([]);
});

test('many devices, refused one after the other, are one Event that names all', () => {
  const { look } = follow();
  look({ eth0: 'lost frames', eth1: 'lost frames' });
  look({ eth0: 'lost frames', eth2: 'no frame came in', eth3: 'lost frames' });
  look({ eth4: 'lost frames' });
  expect(look({ eth4: 'lost frames' })).toEqual([
    'XDP is not used on eth0, eth1, eth3, eth4: lost frames; on eth2: no frame came in',
  ]);
});

test('what is new at every look is told all the same', () => {
  const { look } = follow();
  const told = Array.from({ length: 6 }, (_, at) => look({ eth0: `reason ${at}` })).flat();
  expect(told).toEqual(['XDP is not used on eth0: reason 5']);
});
