// SPDX-License-Identifier: Apache-2.0
// The interface between the follower, which says what is attached to which device, and kernel-links.ts, which does it.
export type Direction = 'ingress' | 'egress';
export const DIRECTIONS: readonly Direction[] = ['ingress', 'egress'];

export interface DeviceTarget {
  readonly ifindex: number;
  readonly name: string;
  readonly isL3: boolean;
}

export interface Attachment extends DeviceTarget {
  readonly direction: Direction;
}

/** Functions throw what the kernel answered. */
export interface DeviceLinks {
  /**
   * Replaces the programs of an earlier agent by the loaded ones, in place, and returns where they are. What has no
   * device any more, or one in another network namespace, is removed.
   */
  adopt(): readonly Attachment[];
  /**
   * Loads the programs for devices of this kind. undefined: they are loaded. Rejects with what the kernel answered; the next
   * call tries again.
   */
  load(isL3: boolean): Promise<void> | undefined;
  attach(target: DeviceTarget, direction: Direction): void;
  /** Fine if it, or the device, is gone. */
  detach(ifindex: number, direction: Direction): void;
  /** The devices keep their programs; their pins get the new names. */
  rename(names: ReadonlyMap<number, string>): void;
  /** False if somebody else has removed it. */
  isAttached(ifindex: number, direction: Direction): boolean;
  /** Programs of the device in the order in which they run. */
  order(ifindex: number, direction: Direction): readonly string[];
}
