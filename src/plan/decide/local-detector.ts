// SPDX-License-Identifier: Apache-2.0
// Which devices are those of pods (interface modes of kube-proxy's LocalTrafficDetector).
import type { LocalDetector } from '../types.ts';

/**
 * True if what comes in by the device is a pod's. With a CIDR it is the source address that tells pods, with
 * neither nothing does.
 */
export function isPodDevice(detector: LocalDetector | undefined, device: string): boolean {
  if (detector?.kind === 'interface') return device === detector.name;
  return detector?.kind === 'interface-prefix' && device.startsWith(detector.prefix);
}
