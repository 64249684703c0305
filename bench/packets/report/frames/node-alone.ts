// SPDX-License-Identifier: Apache-2.0
// What the node takes for a packet, of the way that packets of one way take. Pure.
import type { FrameSample } from './figures.ts';

/**
 * In each round less what it takes to make a frame and to drop it as it comes in. The rest has a frame received by the
 * server in it, at the same price as by the node, so it stands for that.
 */
export function nodeAlone(
  feeder: readonly FrameSample[] = [],
  samples: readonly FrameSample[] = [],
): readonly number[] {
  const rounds = Math.min(feeder.length, samples.length);
  return Array.from(
    { length: rounds },
    (_, round) => nsPerFrame(samples[round]!) - nsPerFrame(feeder[round]!),
  );
}

const nsPerFrame = ({ cpuNs, frames }: FrameSample): number => cpuNs / frames;
