// SPDX-License-Identifier: Apache-2.0
// A set of keys that keeps 64 bits of each, 16 to 32 MiB for a million. Two keys are taken for one with a
// probability of 2^-64 for each pair.

export interface KeySet {
  add(key: Uint8Array): void;
  has(key: Uint8Array): boolean;
}

const FIRST_SLOTS = 1024;

export function createKeySet(): KeySet {
  let slots = new Uint32Array(2 * FIRST_SLOTS);
  let count = 0;

  /** The slot that has the hash, or the free one where it belongs. */
  const slotOf = (low: number, high: number): number => {
    const mask = slots.length / 2 - 1;
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      const found = slots[2 * slot + 1];
      if (found === 0 || (found === high && slots[2 * slot] === low)) return slot;
    }
  };
  const put = (low: number, high: number): void => {
    const slot = slotOf(low, high);
    if (slots[2 * slot + 1] !== 0) return;
    slots[2 * slot] = low;
    slots[2 * slot + 1] = high;
    count += 1;
  };
  const grow = (): void => {
    const old = slots;
    slots = new Uint32Array(2 * old.length);
    count = 0;
    for (let at = 0; at < old.length; at += 2) {
      const high = old[at + 1] ?? 0;
      if (high !== 0) put(old[at] ?? 0, high);
    }
  };
  return {
    add(key) {
      if (4 * count > slots.length) grow();
      put(hash(key, 0), hash(key, 1) || 1);
    },
    has(key) {
      const slot = slotOf(hash(key, 0), hash(key, 1) || 1);
      return slots[2 * slot + 1] !== 0;
    },
  };
}

const SEEDS = [0x811c9dc5, 0x2545f491];

/** MurmurHash3's mixing of each byte and of the end. */
function hash(bytes: Uint8Array, seed: 0 | 1): number {
  let mixed = SEEDS[seed] ?? 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const k = Math.imul(bytes[at] ?? 0, 0xcc9e2d51);
    mixed ^= Math.imul((k << 15) | (k >>> 17), 0x1b873593);
    mixed = Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe6546b64;
  }
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
