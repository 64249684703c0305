// SPDX-License-Identifier: Apache-2.0
// The rules as they were read when the variant was chosen. A start needs them twice more, for what an earlier agent has programmed and
// before its first write, and with iptables-nft each reading of an agent's rules takes as long as writing some: as long as the kernel's
// generation is the same, nobody has written any since.
import type { Tools } from './tools.ts';

/** One more with each transaction that changes rules; undefined: not known. */
export type Generation = () => number | undefined;

export interface FirstReading {
  readonly text: string;
  /** Before it was read. */
  readonly generation: number | undefined;
}

export function withFirstReading(tools: Tools, reading: FirstReading, now: Generation): Tools {
  let known: FirstReading | undefined = reading;
  return {
    ...tools,
    async save(options = {}) {
      const first = known;
      const isSame = first?.generation !== undefined && first.generation === now();
      if (options.isLast === true || !isSame) known = undefined;
      if (first === undefined || !isSame || options.counters === true) return tools.save(options);
      return first.text;
    },
  };
}
