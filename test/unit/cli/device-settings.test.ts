// SPDX-License-Identifier: Apache-2.0
// --devices, --tc-order and the interface detectors -> the settings of the packet layer.
import { expect, test } from 'vitest';
import { deviceSettings } from '../../../src/cli/device-settings.ts';
import { loadConfig } from '../../../src/config/load.ts';

const of = (flags: Readonly<Record<string, string>>) =>
  deviceSettings(loadConfig({ manifests: '/m', 'hostname-override': 'n1', ...flags }).config);

test.each([
  [
    'nothing',
    {},
    {
      policy: { patterns: ['auto'], podDevices: undefined },
      order: 'outer',
      early: { xdp: ['off'] },
    },
  ],
  ['none', { devices: 'none' }, undefined],
  [
    'auto',
    { devices: 'auto' },
    {
      policy: { patterns: ['auto'], podDevices: undefined },
      order: 'outer',
      early: { xdp: ['off'] },
    },
  ],
  [
    'patterns and order',
    { devices: 'eth*,!eth9', 'tc-order': 'inner', xdp: 'auto,eth1=off' },
    {
      policy: { patterns: ['eth*', '!eth9'], podDevices: undefined },
      order: 'inner',
      early: { xdp: ['auto', 'eth1=off'] },
    },
  ],
  [
    'a bridge',
    { devices: 'auto', 'detect-local-mode': 'BridgeInterface', 'pod-bridge-interface': 'cbr0' },
    {
      policy: { patterns: ['auto'], podDevices: { kind: 'interface', name: 'cbr0' } },
      order: 'outer',
      early: { xdp: ['off'] },
    },
  ],
  [
    'a prefix',
    {
      devices: 'auto',
      'detect-local-mode': 'InterfaceNamePrefix',
      'pod-interface-name-prefix': 'cali',
    },
    {
      policy: { patterns: ['auto'], podDevices: { kind: 'interface-prefix', prefix: 'cali' } },
      order: 'outer',
      early: { xdp: ['off'] },
    },
  ],
] as const)('%s', (_name, flags, expected) => {
  expect(of(flags)).toEqual(expected);
});

test.each([
  ['auto,none', /'none' must be alone: leave it out, or all others$/],
  ['', /must not be empty: use auto, none, or names of devices$/],
  ['eth0/1', /without blanks and slashes, or a pattern, not "eth0\/1"/],
  ['a-name-that-is-too-long', /at most 15/],
  ['a b', /at most 15/],
])('--devices %s is refused', (devices, reason) => {
  expect(() => of({ devices })).toThrow(reason);
});
