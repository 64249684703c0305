// SPDX-License-Identifier: Apache-2.0
// Which programs this instance has attached: by its pins, which need no right that the agent lacks.
import { basename } from 'node:path';
import { listPins, parseLinkPin } from '../loader/pins.ts';
import { openLinkPin } from './device-pins.ts';

/** Names by the kernel's id. */
export function pinnedPrograms(bpfRoot: string): ReadonlyMap<number, string> {
  const names = new Map<number, string>();
  for (const path of listPins(bpfRoot).links) {
    const id = programAt(path);
    if (id !== undefined) names.set(id, parseLinkPin(basename(path)).program);
  }
  return names;
}

/** Of a pin that has just gone, none. */
function programAt(path: string): number | undefined {
  try {
    const pinned = openLinkPin(path);
    if (pinned.kind === 'filter') return pinned.programId;
    const { programId } = pinned.link;
    pinned.link.close();
    return programId;
  } catch {
    return undefined;
  }
}
