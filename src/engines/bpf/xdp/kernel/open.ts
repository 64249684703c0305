// SPDX-License-Identifier: Apache-2.0
// XDP of the packet layer. Without --xdp nothing is loaded, and what an earlier agent attached is detached; with it, programs
// are loaded when the first device may use them, or at once if an earlier agent has left devices with them.
import { reasonOf } from '../../../../errors.ts';
import type { Logger } from '../../../../log.ts';
import { SYSTEM_CLOCK } from '../../../../sys/clock.ts';
import type { NetworkFollower } from '../../../../sys/netlink/network.ts';
import type { EarlyPathKind, FollowedDevices, OpenEarlyPath } from '../../devices/early-path.ts';
import { detachPinned, earlyPins } from '../../kernel/devices/device-pins.ts';
import { pinFolder } from '../../kernel/loader/pins.ts';
import { candidatesOf } from '../candidates.ts';
import { createXdpFollower, type XdpCandidate } from '../xdp-follower.ts';
import { type ClosableKernelXdp, createKernelXdp } from './kernel-xdp.ts';
import { type LoadedXdp, loadXdp, readObjects, XDP_PROGRAM } from './programs.ts';

export const XDP: EarlyPathKind = { name: 'xdp', prepare };

async function prepare(
  ...[entries, { maps }, parts]: Parameters<EarlyPathKind['prepare']>
): ReturnType<EarlyPathKind['prepare']> {
  const { readObject, bpfRoot, sizes, features, log } = parts;
  const { links: folder } = pinFolder(bpfRoot);
  const pinned = earlyPins(folder, [XDP_PROGRAM]);
  if (entries.every((entry) => entry.endsWith('off'))) {
    for (const { path } of pinned) detachPinned(path, () => undefined);
    return () => undefined;
  }
  const load = (): Promise<LoadedXdp> =>
    loadXdp({ objects: readObjects(readObject), bpfRoot, sizes, features, maps });
  const loaded = pinned.length > 0 ? await orWarn(load, log) : undefined;
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
): OpenEarlyPath {
  let devices: FollowedDevices | undefined;
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
    view(ifindex) {
      const xdp = follower.view(ifindex);
      return xdp === undefined ? {} : { xdp };
    },
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
