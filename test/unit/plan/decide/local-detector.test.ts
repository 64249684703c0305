// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { isPodDevice } from '../../../../src/plan/decide/local-detector.ts';
import type { LocalDetector } from '../../../../src/plan/types.ts';

const CBR0: LocalDetector = { kind: 'interface', name: 'cbr0' };
const CALI: LocalDetector = { kind: 'interface-prefix', prefix: 'cali' };

test.each([
  ['cbr0', CBR0, true],
  ['cbr01', CBR0, false],
  ['cali1a2b', CALI, true],
  ['cali', CALI, true],
  ['eth0', CALI, false],
  ['cali1a2b', { kind: 'cidr', cidr: '10.1.0.0/16' }, false],
  ['eth0', undefined, false],
] as const)('%s with %j: %s', (device, detector, isPod) => {
  expect(isPodDevice(detector, device)).toBe(isPod);
});
