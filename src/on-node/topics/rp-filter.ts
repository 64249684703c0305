// SPDX-License-Identifier: Apache-2.0
// Reverse path filters: strict ones drop what comes in by a device that does not lead back to its source. Pure.
import type { OwnFacts, ReversePath } from '../facts.ts';
import type { Finding } from '../finding.ts';
import { listed } from './listed.ts';

interface Around extends Pick<OwnFacts, 'uplinks'> {
  /** There is policy routing. */
  readonly hasRules: boolean;
}

/** It breaks Services where answers and requests may take different devices: several uplinks, and rules that choose among them. */
export function reversePathFindings(
  filters: readonly ReversePath[],
  { uplinks, hasRules }: Around,
): readonly Finding[] {
  const strict = filters.filter(({ mode }) => mode === 'strict').map(({ device }) => device);
  if (strict.length === 0) return [];
  const affected = strict.filter((device) => uplinks.includes(device));
  const breaksServices = hasRules && uplinks.length > 1 && affected.length > 0;
  return [
    {
      topic: 'rp-filter',
      what: `rp_filter is strict (1) on ${listed(strict)}`,
      identity: 'strict',
      ...(breaksServices ? broken(affected) : harmless(affected)),
      breaksServices,
    },
  ];
}

const broken = (devices: readonly string[]): Pick<Finding, 'consequence' | 'advice'> => ({
  consequence:
    'rules of policy routing choose among several uplinks: what comes in by one of them and would leave by another is dropped',
  advice: devices
    .map((device) => `\`sysctl -w net.ipv4.conf.${sysctlName(device)}.rp_filter=2\``)
    .join(', '),
});

const harmless = (devices: readonly string[]): Pick<Finding, 'consequence'> => ({
  consequence:
    devices.length === 0
      ? 'none for clients from outside: no uplink has it'
      : 'what comes in by a device that does not lead back to its source is dropped; with one uplink, forged addresses alone',
});

/** sysctl(8) separates by dots: a dot in a name is a slash there. */
const sysctlName = (device: string): string => device.replaceAll('.', '/');
