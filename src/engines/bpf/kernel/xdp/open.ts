// SPDX-License-Identifier: Apache-2.0
// XDP of the packet layer. Without --xdp nothing is loaded, and what an earlier agent attached is detached; with it, programs
// are loaded when the first device may use them, or at once if an earlier agent has left devices with them.
import { reasonOf } from '../../../../errors.ts';
import type { Logger } from '../../../../log.ts';
import { SYSTEM_CLOCK } from '../../../../sys/clock.ts';
import type { BpfMap } from '../../../../sys/native.ts';
import type { NetworkFollower } from '../../../../sys/netlink/network.ts';
import type { DeviceFollower, DeviceXdp } from '../../devices/follower.ts';
import type { Features } from '../../layout/packet-layout.ts';
import { candidatesOf } from '../../xdp/candidates.ts';
import { createXdpFollower, type XdpCandidate, type XdpFollower } from '../../xdp/follower.ts';
import { detachPinned, xdpPins } from '../devices/device-pins.ts';
import { pinFolder } from '../loader/pins.ts';
import { type ClosableKernelXdp, createKernelXdp } from './kernel-xdp.ts';
import { type LoadedXdp, loadXdp, type XdpObjects } from './programs.ts';

export interface OpenXdp extends DeviceXdp, Pick<XdpFollower, 'begin' | 'repair'> {
  /** Once: the devices that it is about. */
  follow(devices: DeviceFollower, network: Pick<NetworkFollower, 'current'>): void;
  /** What is trusted stays attached. */
  close(): void;
}

export interface OpenXdpParts {
  readonly xdpObjects: XdpObjects;
  readonly bpfRoot: string;
  readonly sizes: Readonly<Record<string, number>>;
  readonly features: Features;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** Links of an earlier agent go on with its program until this is called. undefined: --xdp asks for it on no device. */
export type AdoptXdp = () => OpenXdp | undefined;

/** Loads what links of an earlier agent are to run. */
export async function prepareXdp(
  entries: readonly string[],
  { maps }: { readonly maps: ReadonlyMap<string, BpfMap> },
  { xdpObjects, bpfRoot, sizes, features, log }: OpenXdpParts,
): Promise<AdoptXdp> {
  const { links: folder } = pinFolder(bpfRoot);
  if (entries.every((entry) => entry.endsWith('off'))) {
    for (const { path } of xdpPins(folder)) detachPinned(path, () => undefined);
    return () => undefined;
  }
  const load = (): Promise<LoadedXdp> =>
    loadXdp({ objects: xdpObjects, bpfRoot, sizes, features, maps });
  const loaded = xdpPins(folder).length > 0 ? await orWarn(load, log) : undefined;
  return () => withKernel(createKernelXdp({ folder, loaded, load }), entries, log);
}

/** A refusal leaves everything to tc. */
async function orWarn(
  load: () => Promise<LoadedXdp>,
  log: Pick<Logger, 'warn'>,
): Promise<LoadedXdp | undefined> {
  try {
    return await load();
  } catch (error) {
    log.warn({ reason: reasonOf(error) }, 'the kernel refuses the XDP programs');
    return undefined;
  }
}

function withKernel(
  kernel: ClosableKernelXdp,
  entries: readonly string[],
  log: Pick<Logger, 'info' | 'warn'>,
): OpenXdp {
  let devices: DeviceFollower | undefined;
  let network: Pick<NetworkFollower, 'current'> | undefined;
  const candidates = (): readonly XdpCandidate[] => {
    const current = network?.current();
    if (current === undefined || devices === undefined) return [];
    return candidatesOf(devices.decisions(), current, entries);
  };
  const onTargets = (): void => devices?.refresh();
  const follower = createXdpFollower({ candidates, kernel, onTargets, clock: SYSTEM_CLOCK, log });
  return {
    isTarget: follower.isTarget.bind(follower),
    isServed: follower.isServed.bind(follower),
    leave: follower.leave.bind(follower),
    view: follower.view.bind(follower),
    begin: follower.begin.bind(follower),
    repair: follower.repair.bind(follower),
    onChange() {
      if (devices !== undefined) follower.refresh();
    },
    follow(followed, itsNetwork) {
      devices = followed;
      network = itsNetwork;
      follower.refresh();
    },
    close() {
      follower.close();
      kernel.close();
    },
  };
}
