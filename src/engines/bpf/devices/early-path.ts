// SPDX-License-Identifier: Apache-2.0
// The interface to what may forward frames of devices before the programs of tc see them. Those programs are complete: without it
// a device lacks nothing but speed. Each such path is a folder and a line of kernel/devices/early-paths.ts.
import type { Logger } from '../../../log.ts';
import type { BpfMap } from '../../../sys/native.ts';
import type { NetworkFollower } from '../../../sys/netlink/network.ts';
import type { EarlyViews } from '../../snapshot.ts';
import type { Features } from '../layout/packet-layout.ts';
import type { DeviceDecision } from './policy.ts';

/** What the follower of devices needs to know of a path, and the path of devices. */
export interface EarlyPath {
  /** Programs of this path may send to it. */
  isTarget(ifindex: number): boolean;
  /** What comes in by it is translated on this path. */
  isServed(ifindex: number): boolean;
  /** Before the programs of tc are detached. Fine if the path does not use the device. */
  leave(ifindex: number): void;
  view(ifindex: number): EarlyViews;
  /** Devices have changed, or what is attached to them. */
  onChange(): void;
}

/** The devices that a path may use. */
export interface FollowedDevices {
  decisions(): readonly (DeviceDecision & { readonly isAttached: boolean })[];
  /** Writes what has changed of `isTarget` and `isServed`. */
  refresh(): void;
}

export interface OpenEarlyPath extends EarlyPath {
  /** Once: the devices that it is about. */
  follow(devices: FollowedDevices, network: Pick<NetworkFollower, 'current'>): void;
  /** Once Services are programmed: nothing is tried before. */
  begin(): void;
  /** Detaches what somebody else has broken; returns the names of these devices. */
  repair(): readonly string[];
  /** What is trusted stays attached. */
  close(): void;
}

export interface EarlyPathParts {
  readonly readObject: (name: string) => Uint8Array;
  readonly bpfRoot: string;
  readonly sizes: Readonly<Record<string, number>>;
  readonly features: Features;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** Links of an earlier agent go on with its programs until this is called. undefined: no device is to use the path. */
export type AdoptEarlyPath = () => OpenEarlyPath | undefined;

export interface EarlyPathKind {
  /** Of its setting. */
  readonly name: string;
  /**
   * Loads what links of an earlier agent are to run.
   * @param entries which devices are to use it, as the setting has it
   */
  prepare(
    entries: readonly string[],
    loaded: { readonly maps: ReadonlyMap<string, BpfMap> },
    parts: EarlyPathParts,
  ): Promise<AdoptEarlyPath>;
}
