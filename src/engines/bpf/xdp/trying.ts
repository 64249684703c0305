// SPDX-License-Identifier: Apache-2.0
// Whether a device that is being tried may be trusted: its driver took all frames of a test, and frames have come in by XDP.
// Pure.
import type { Trial } from './xdp-device.ts';

export type TrialResult =
  | { readonly kind: 'passed' }
  | { readonly kind: 'going on' | 'failed'; readonly reason: string };

/** Some drivers set up their queues after the program was attached; a quiet network has a neighbour that answers. */
const TRIAL_MS = 10_000;

export function tryDevice(trial: Trial, forMs: number): TrialResult {
  const isOver = forMs >= TRIAL_MS;
  const received = trial.received();
  // Sent once more as long as some were refused.
  const { taken, of } = trial.send();
  if (taken < of) {
    const reason = `its driver took ${taken} of ${of} frames that XDP sent`;
    return { kind: isOver ? 'failed' : 'going on', reason };
  }
  if (received > 0) return { kind: 'passed' };
  const reason = isOver
    ? `no frame came in by XDP within ${TRIAL_MS / 1000} s`
    : 'it is being tried: no frame has come in by XDP yet';
  return { kind: isOver ? 'failed' : 'going on', reason };
}
