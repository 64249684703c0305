// SPDX-License-Identifier: Apache-2.0
// Attaches XDP to devices, in native mode only: generic XDP is slower than tc. A link is pinned, as fl_xdp@device, when its
// device is trusted; until then it ends with the agent.
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { FairleadError, reasonOf } from '../../../../errors.ts';
import type { BpfLink } from '../../../../sys/native.ts';
import * as native from '../../../../sys/native.ts';
import { askNeighbours } from '../../../../sys/netlink/neighbours.ts';
import { xdpProgramOf } from '../../../../sys/netlink/xdp-program.ts';
import { codeOf } from '../../errors.ts';
import { earlyPins } from '../../kernel/devices/device-pins.ts';
import { linkPin, unpin } from '../../kernel/loader/pins.ts';
import { linksOf, writeLinks, type XdpFamily, type XdpLink } from '../links.ts';
import type { XdpTraffic } from '../losses.ts';
import { testFrame } from '../test-frame.ts';
import type { Trial, XdpKernel, XdpTarget } from '../xdp-device.ts';
import { createCounts, type XdpCounts } from './counts.ts';
import { type LoadedXdp, XDP_PROGRAM } from './programs.ts';

export interface KernelXdpParts {
  /** Folder of the pins. */
  readonly folder: string;
  /** What is loaded already. */
  readonly loaded: LoadedXdp | undefined;
  readonly load: () => Promise<LoadedXdp>;
}

export interface ClosableKernelXdp extends XdpKernel {
  /** What is pinned stays. */
  close(): void;
}

export const createKernelXdp = (parts: KernelXdpParts): ClosableKernelXdp => new KernelXdp(parts);

const FRAMES = 8;
const BPF_F_TEST_XDP_LIVE_FRAMES = 1 << 1;

class KernelXdp implements ClosableKernelXdp {
  readonly #parts: KernelXdpParts;
  readonly #pins = new Map<number, string>();
  #loaded: LoadedXdp | undefined;
  #counts: XdpCounts | undefined;
  #writeLinks: ((links: readonly XdpLink[]) => void) | undefined;
  #isClosed = false;

  constructor(parts: KernelXdpParts) {
    this.#parts = parts;
    if (parts.loaded !== undefined) this.#take(parts.loaded);
  }

  adopt(): readonly { readonly ifindex: number; readonly name: string }[] {
    return earlyPins(this.#parts.folder, [XDP_PROGRAM]).flatMap(({ path, device: name }) => {
      const link = native.openPinnedLink(path);
      try {
        const { ifindex = 0, programId } = link;
        if (this.#loaded !== undefined && ifindex !== 0 && xdpProgramOf(ifindex) === programId) {
          link.update(this.#loaded.program(XDP_PROGRAM));
          this.#counts?.watch(ifindex);
          this.#pins.set(ifindex, path);
          return [{ ifindex, name }];
        }
        link.detach();
      } catch {
        link.detach(); // The device has just gone, or its driver refuses the program.
      } finally {
        link.close();
      }
      unpin(path);
      return [];
    });
  }

  load(): Promise<void> | undefined {
    return this.#loaded === undefined ? this.#load() : undefined;
  }

  async #load(): Promise<void> {
    const loaded = await this.#parts.load();
    if (this.#isClosed) loaded.close();
    else this.#take(loaded);
  }

  #take(loaded: LoadedXdp): void {
    this.#loaded = loaded;
    this.#counts = createCounts(loaded.counts);
    this.#writeLinks = writeLinks(loaded.links);
  }

  begin(target: XdpTarget): Trial {
    const { ifindex, ports } = target;
    const loaded = this.#loaded;
    const counts = this.#counts;
    if (loaded === undefined || counts === undefined) throw new TypeError('XDP is not loaded');
    for (const one of [ifindex, ...ports]) counts.watch(one);
    const link = target.use === 'both' ? attachTrial(target, loaded) : undefined;
    if (link !== undefined) askNeighbours(ifindex);
    const frame = testFrame(target.mac, ifindex);
    let taken = 0;
    let isOver = link === undefined;
    return {
      send() {
        if (taken < FRAMES) taken = sendFrames(loaded, frame, () => counts.read(ifindex).sent);
        return { taken, of: FRAMES };
      },
      received: () => (link === undefined ? FRAMES : received(counts, target)),
      trust: () => {
        if (link !== undefined) this.#trust(target, link, loaded);
        for (const port of ports) counts.forget(port);
        isOver = true;
      },
      end() {
        if (isOver) return;
        isOver = true;
        for (const port of ports) counts.forget(port);
        link?.detach();
        link?.close();
      },
    };
  }

  #trust({ ifindex, name }: XdpTarget, link: BpfLink, loaded: LoadedXdp): void {
    const path = join(this.#parts.folder, linkPin(XDP_PROGRAM, name));
    // Of an earlier device with this name.
    if (existsSync(path)) unpin(path);
    link.update(loaded.program(XDP_PROGRAM));
    link.pin(path);
    link.close();
    this.#pins.set(ifindex, path);
  }

  detach(ifindex: number): void {
    const path = this.#pins.get(ifindex);
    this.#counts?.forget(ifindex);
    this.#pins.delete(ifindex);
    if (path === undefined || !existsSync(path)) return;
    const link = native.openPinnedLink(path);
    try {
      link.detach();
    } finally {
      link.close();
      unpin(path);
    }
  }

  rename(ifindex: number, name: string): void {
    if (!this.#pins.has(ifindex)) return;
    const pin = linkPin(XDP_PROGRAM, name);
    const path = join(this.#parts.folder, pin);
    // The devices have exchanged their names: to overwrite the other one's pin would detach it. Its turn comes.
    const other = [...this.#pins].find(([one, its]) => its === path && one !== ifindex);
    if (other !== undefined) this.#move(other[0], `${XDP_PROGRAM}@~${other[0]}`);
    this.#move(ifindex, pin);
  }

  #move(ifindex: number, pin: string): void {
    const before = this.#pins.get(ifindex);
    if (before === undefined) return;
    const path = join(this.#parts.folder, pin);
    renameSync(before, path);
    this.#pins.set(ifindex, path);
  }

  isAttached(ifindex: number): boolean {
    if (this.#loaded === undefined) return false;
    // What only sends has no program.
    if (!this.#pins.has(ifindex)) return true;
    return xdpProgramOf(ifindex) === this.#loaded.program(XDP_PROGRAM).info.id;
  }

  setFamilies(families: readonly XdpFamily[]): void {
    this.#writeLinks?.(linksOf(families));
  }

  traffic(ifindex: number): XdpTraffic {
    return this.#counts?.read(ifindex) ?? { sent: 0, lost: 0 };
  }

  close(): void {
    this.#isClosed = true;
    this.#loaded?.close();
  }
}

/** Of a bond: by any of its ports, because only one of them may be in use. */
const received = (counts: XdpCounts, { ifindex, ports }: XdpTarget): number =>
  Math.max(...[ifindex, ...ports].map((one) => counts.read(one).received));

/** Throws ATTACH_FAILED. */
function attachTrial({ ifindex }: XdpTarget, { program }: LoadedXdp): BpfLink {
  const other = xdpProgramOf(ifindex);
  if (other !== 0) {
    throw new FairleadError('ATTACH_FAILED', `it has another XDP program (${other}), which stays`);
  }
  try {
    return program('fl_xdp_trial').attachXdp(ifindex, { mode: 'native' });
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENODEV') throw error;
    const why = REFUSALS[code] ?? 'the kernel refuses the XDP program';
    throw new FairleadError('ATTACH_FAILED', `${why}: ${reasonOf(error)}`);
  }
}

const REFUSALS: Readonly<Record<string, string>> = {
  EOPNOTSUPP: 'its driver has no native XDP, or not with its settings',
  ERANGE: 'its MTU, or that of its peer, is too large for XDP',
  ENOSPC: 'it has too few queues for XDP',
  EBUSY: 'it has another XDP program',
};

/** How many more the driver has taken, by the kernel's own count. */
function sendFrames({ program }: LoadedXdp, frame: Uint8Array, sent: () => number): number {
  const before = sent();
  try {
    const flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    program('fl_xdp_send').testRun({ dataIn: frame, dataOutSize: 0, repeat: FRAMES, flags });
  } catch (error) {
    if (codeOf(error) !== 'EINVAL') throw error;
    throw new FairleadError(
      'ATTACH_FAILED',
      'the kernel cannot send a frame by XDP to try it (before Linux 5.18)',
    );
  }
  return sent() - before;
}
