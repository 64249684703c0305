// SPDX-License-Identifier: Apache-2.0
// The pins of what is attached: links, and for clsact filters their programs.
import { join } from 'node:path';
import type { BpfLink } from '../../../../sys/native.ts';
import * as native from '../../../../sys/native.ts';
import type { Direction } from '../../devices/device-links.ts';
import { codeOf } from '../../errors.ts';
import { DEVICE_PROGRAMS, EARLY_PROGRAMS } from '../../layer.ts';
import { parseLinkPin, pinsIn, unpin } from '../loader/pins.ts';

export interface DevicePin {
  readonly path: string;
  readonly program: string;
  readonly direction: Direction;
  /** The device's name when it was made, or renamed last. */
  readonly device: string;
}

/** Of links of early paths, or of one of them. */
export const earlyPins = (
  folder: string,
  programs = EARLY_PROGRAMS,
): readonly Pick<DevicePin, 'path' | 'device'>[] =>
  pinsIn(folder).flatMap((pin) => {
    const { program, device } = parseLinkPin(pin);
    if (!programs.includes(program) || device === undefined) return [];
    return [{ path: join(folder, pin), device }];
  });

/** Of links and filters of tc. */
export function devicePins(folder: string): readonly DevicePin[] {
  return pinsIn(folder).flatMap((pin) => {
    const { program, device } = parseLinkPin(pin);
    if (!DEVICE_PROGRAMS.includes(program) || device === undefined) return [];
    const direction = program.startsWith('fl_egress') ? 'egress' : 'ingress';
    return [{ path: join(folder, pin), program, direction, device }];
  });
}

export type Pinned =
  | { readonly kind: 'link'; readonly link: BpfLink }
  | { readonly kind: 'filter'; readonly programId: number };

/** The caller closes the link. */
export function openLinkPin(path: string): Pinned {
  try {
    return { kind: 'link', link: native.openPinnedLink(path) };
  } catch (error) {
    if (codeOf(error) !== 'ARGUMENT') throw error;
    const program = native.openPinnedProgram(path);
    const { id: programId } = program.info;
    program.close();
    return { kind: 'filter', programId };
  }
}

/**
 * Unpinning alone would leave a link attached while another process holds it, and a filter always. A filter's pin
 * does not say which device it is on: `removeFilter` is given the id of its program.
 */
export function detachPinned(path: string, removeFilter: (programId: number) => void): void {
  const pinned = openLinkPin(path);
  if (pinned.kind === 'filter') {
    removeFilter(pinned.programId);
  } else {
    try {
      pinned.link.detach();
    } catch {
      // The cgroup is gone, and the kernel has detached the link with it.
    } finally {
      pinned.link.close();
    }
  }
  unpin(path);
}
