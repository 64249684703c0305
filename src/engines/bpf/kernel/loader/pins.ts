// SPDX-License-Identifier: Apache-2.0
// The instance's pins on the bpf file system: <bpf-root>/maps/<map> and <bpf-root>/links/<program>. They
// outlive the agent. --bpf-root may be shared with other programs: only fairlead's names are read or removed.
import { lstatSync, mkdirSync, readdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { FairleadError } from '../../../../errors.ts';
import { EARLY_PROGRAMS, isHookProgram } from '../../layer.ts';
import { type MapVersions, mapPin, type PinnedMap, parseMapPin } from '../../layout/versions.ts';

export interface PinFolder {
  readonly maps: string;
  readonly links: string;
}

export function pinFolder(bpfRoot: string): PinFolder {
  return { maps: join(bpfRoot, 'maps'), links: join(bpfRoot, 'links') };
}

export const mapPath = (bpfRoot: string, map: PinnedMap): string =>
  join(pinFolder(bpfRoot).maps, mapPin(map));

/** Of a map in a folder of pins, in whatever version it is pinned there. */
export const pathsOf = (folder: string, map: PinnedMap): readonly string[] =>
  pinsIn(folder)
    .filter((pin) => parseMapPin(pin)?.map === map)
    .map((pin) => join(folder, pin));

/** Name of a link's pin. bpffs takes no dots in names, network devices may have them (`eth0.100`). */
export function linkPin(program: string, device?: string): string {
  if (device === undefined) return program;
  return `${program}@${device.replaceAll('%', '%25').replaceAll('.', '%2e')}`;
}

/** The reverse of linkPin. */
export function parseLinkPin(pin: string): { program: string; device: string | undefined } {
  const [program = '', ...device] = pin.split('@');
  if (device.length === 0) return { program, device: undefined };
  const name = device.join('@').replaceAll('%2e', '.').replaceAll('%25', '%');
  return { program, device: name };
}

/** As they are to be removed: what early paths leave is for the programs of tc. */
const earlyFirst = (pins: readonly string[]): readonly string[] => {
  const isEarly = (pin: string): boolean => EARLY_PROGRAMS.includes(parseLinkPin(pin).program);
  return [...pins.filter(isEarly), ...pins.filter((pin) => !isEarly(pin))];
};

const isLinkPin = (pin: string): boolean => isHookProgram(parseLinkPin(pin).program);

/** Makes the folders for pins. Throws OTHER_LAYOUT if a map is pinned there in another version. */
export function preparePins(bpfRoot: string, versions?: MapVersions): PinFolder {
  refuseOtherVersions(bpfRoot, versions);
  const folder = pinFolder(bpfRoot);
  mkdirSync(folder.maps, { recursive: true });
  mkdirSync(folder.links, { recursive: true });
  return folder;
}

function refuseOtherVersions(bpfRoot: string, versions?: MapVersions): void {
  const { maps } = pinFolder(bpfRoot);
  for (const pin of pinsIn(maps)) {
    const map = parseMapPin(pin)?.map;
    if (map === undefined || mapPin(map, versions) === pin) continue;
    throw new FairleadError(
      'OTHER_LAYOUT',
      `${join(maps, pin)} has another layout than the ${mapPin(map, versions)} of this version of fairlead: start the version that pinned it, run \`fairlead cleanup --bpf-root ${bpfRoot}\` (no Service is served until the next start) or use another --bpf-root`,
    );
  }
}

/** The instance's pins, of maps in any version, by their paths. */
export function listPins(bpfRoot: string): { readonly links: string[]; readonly maps: string[] } {
  const { links, maps } = pinFolder(bpfRoot);
  return {
    links: earlyFirst(pinsIn(links).filter(isLinkPin)).map((pin) => join(links, pin)),
    maps: pinsIn(maps)
      .filter((pin) => parseMapPin(pin) !== undefined)
      .map((pin) => join(maps, pin)),
  };
}

/** A map that is pinned in any version; undefined: it is not. */
export const formerPin = (bpfRoot: string, map: PinnedMap): string | undefined =>
  listPins(bpfRoot).maps.find((path) => parseMapPin(basename(path))?.map === map);

/** Names of the pins in a folder; none if it is missing or a symbolic link, which may point anywhere. */
export function pinsIn(folder: string): readonly string[] {
  if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
    .sort();
}

/** Removes the instance's folders, except those that are not empty. */
export function removeEmptyFolders(bpfRoot: string): void {
  for (const path of [...Object.values(pinFolder(bpfRoot)), bpfRoot]) {
    try {
      rmdirSync(path);
    } catch {
      // Not empty, not a folder, or a mount point.
    }
  }
}

export function unpin(path: string): void {
  unlinkSync(path);
}
