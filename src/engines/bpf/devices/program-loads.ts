// SPDX-License-Identifier: Apache-2.0
// Programs for a kind of device are loaded when the first one appears; if the kernel refuses them, not again at once, because
// the verifier takes a tenth of a second.
import { reasonOf } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { DeviceLinks } from './device-links.ts';

const RETRY_MS = 30_000;

export type ProgramState =
  | { readonly kind: 'loaded' | 'loading' }
  | { readonly kind: 'refused'; readonly reason: string };

export interface ProgramLoads {
  /** Begins to load what is missing. */
  request(isL3: boolean): ProgramState;
}

/** @param onEnd called after each load, also one that failed */
export function createProgramLoads(
  links: Pick<DeviceLinks, 'load'>,
  clock: Pick<Clock, 'monotonicMs'>,
  onEnd: () => void,
): ProgramLoads {
  const loading = new Set<boolean>();
  const refusals = new Map<boolean, { readonly reason: string; readonly untilMs: number }>();
  return {
    request(isL3) {
      if (loading.has(isL3)) return { kind: 'loading' };
      const refusal = refusals.get(isL3);
      if (refusal !== undefined && clock.monotonicMs() < refusal.untilMs) {
        return { kind: 'refused', reason: refusal.reason };
      }
      const load = links.load(isL3);
      if (load === undefined) return { kind: 'loaded' };
      loading.add(isL3);
      const refuse = (error: unknown): void => {
        const untilMs = clock.monotonicMs() + RETRY_MS;
        refusals.set(isL3, { reason: reasonOf(error), untilMs });
      };
      void load.catch(refuse).finally(() => {
        loading.delete(isL3);
        onEnd();
      });
      return { kind: 'loading' };
    },
  };
}
