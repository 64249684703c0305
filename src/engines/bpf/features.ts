// SPDX-License-Identifier: Apache-2.0
// What packet programs are loaded with: the constants of bpf/packet/features.h. The kernel verifies and compiles the rest of
// the programs alone. Programs with more are loaded before the first Service that needs them is programmed, and nothing is
// ever taken away while the agent runs.
import type { Plan, ServiceKey } from '../../plan/types.ts';
import type { Features } from './layout/packet-layout.ts';

export const NO_FEATURES: Features = { ipv6: false, directReturn: false };
export const ALL_FEATURES: Features = { ipv6: true, directReturn: true };

/** Before Linux 6.8 the kernel verifies and compiles also what nothing reaches: to leave it out would only load programs twice. */
export function canLeaveOut(kernelRelease: string): boolean {
  const [major = 0, minor = 0] = kernelRelease.split('.').map((part) => Number.parseInt(part, 10));
  return major > 6 || (major === 6 && minor >= 8);
}

type Asking = Pick<Plan, 'services' | 'wantsDirectReturn'> & {
  readonly node: Pick<Plan['node'], 'isPeer'>;
};

/**
 * What the changed Services of a plan need.
 *
 * @param isAble the kernel has direct return; else its Services are masqueraded
 */
export function featuresFor(
  { services, wantsDirectReturn, node }: Asking,
  changed: Iterable<ServiceKey> | 'all',
  isAble = true,
): Features {
  const directReturn = isAble && (wantsDirectReturn === true || node.isPeer === true);
  return { ipv6: directReturn || hasIpv6(services, changed), directReturn };
}

function hasIpv6(services: Plan['services'], changed: Iterable<ServiceKey> | 'all'): boolean {
  for (const key of changed === 'all' ? services.keys() : changed) {
    if (services.get(key)?.ports.some(({ family }) => family === 'IPv6')) return true;
  }
  return false;
}

/** The first ones themselves if the others add nothing. */
export function withMore(features: Features, more: Features): Features {
  const ipv6 = features.ipv6 || more.ipv6;
  const directReturn = features.directReturn || more.directReturn;
  return ipv6 === features.ipv6 && directReturn === features.directReturn
    ? features
    : { ipv6, directReturn };
}

export const featureNames = ({ ipv6, directReturn }: Features): readonly string[] => [
  'IPv4',
  ...(ipv6 ? ['IPv6'] : []),
  ...(directReturn ? ['direct return'] : []),
];

export const featureRodata = ({
  ipv6,
  directReturn,
}: Features): Readonly<Record<string, Uint8Array>> => ({
  with_ipv6: Uint8Array.of(Number(ipv6)),
  with_direct_return: Uint8Array.of(Number(directReturn)),
});
