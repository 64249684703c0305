// SPDX-License-Identifier: Apache-2.0
// Attaches the packet programs to devices: tcx links where the kernel has them (6.6), else clsact filters. Pins
// are named program@device, so that they say by themselves where a program runs.
import { existsSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { BpfLink, BpfProgram } from '../../../../sys/native.ts';
import * as native from '../../../../sys/native.ts';
import {
  type Attachment,
  type DeviceLinks,
  type DeviceTarget,
  DIRECTIONS,
  type Direction,
} from '../../devices/device-links.ts';
import { ETHERNET_PROGRAMS, L3_PROGRAMS } from '../../layer.ts';
import { linkPin, unpin } from '../loader/pins.ts';
import { filterKey, findFilter, putFilter, removeFilter } from './clsact.ts';
import { type DevicePin, detachPinned, devicePins, openLinkPin } from './device-pins.ts';

/**
 * Where the programs run among others on a device. `outer`: the others see packets with the addresses of backends (first
 * at ingress, last at egress); `inner`: they see packets as they are on the wire.
 */
export type TcOrder = 'outer' | 'inner';

export interface KernelLinksParts {
  /** By name: those of DEVICE_PROGRAMS that are loaded. The caller closes them, after the last call. */
  readonly programs: ReadonlyMap<string, BpfProgram>;
  /** Adds others to `programs`; undefined: all are there. */
  readonly load?: (names: readonly string[]) => Promise<void>;
  /** Folder of the pins. */
  readonly folder: string;
  readonly order: TcOrder;
  /** The devices of the namespace. */
  readonly links: () => Iterable<Named>;
  /** Before each link of an earlier agent is replaced. */
  readonly beforeLink?: () => void;
  /** Even where the kernel has tcx. */
  readonly forceClsact?: boolean;
}

export const createKernelLinks = (parts: KernelLinksParts): DeviceLinks => new KernelLinks(parts);

type Named = Pick<DeviceTarget, 'ifindex' | 'name'>;

interface Placed {
  readonly program: string;
  path: string;
  /** undefined: a clsact filter. */
  readonly linkId: number | undefined;
}

class KernelLinks implements DeviceLinks {
  readonly #parts: KernelLinksParts;
  readonly #placed = new Map<string, Placed>();

  constructor(parts: KernelLinksParts) {
    this.#parts = parts;
  }

  adopt(): readonly Attachment[] {
    return devicePins(this.#parts.folder).flatMap((pin) => {
      const { program, direction, path, device: name } = pin;
      if (!existsSync(path)) return []; // It was removed with an earlier pin.
      this.#parts.beforeLink?.();
      const found = this.#replace(pin);
      if (found === undefined || this.#placed.has(keyOf(found.ifindex, direction))) {
        detachPinned(path, () => undefined);
        return [];
      }
      const { ifindex, linkId } = found;
      this.#placed.set(keyOf(ifindex, direction), { program, path, linkId });
      return [{ ifindex, name, isL3: program.endsWith('_l3'), direction }];
    });
  }

  load(isL3: boolean): Promise<void> | undefined {
    const names = isL3 ? L3_PROGRAMS : ETHERNET_PROGRAMS;
    const { programs, load } = this.#parts;
    return names.every((name) => programs.has(name)) ? undefined : load?.(names);
  }

  attach({ ifindex, name, isL3 }: DeviceTarget, direction: Direction): void {
    const program = isL3 ? `fl_${direction}_l3` : `fl_${direction}`;
    const path = join(this.#parts.folder, linkPin(program, name));
    // Of an earlier device with this name.
    if (existsSync(path)) detachPinned(path, () => undefined);
    const hasTcx =
      this.#parts.forceClsact !== true && native.tcxPrograms(ifindex, direction) !== undefined;
    const point = { ifindex, direction, path };
    const linkId = hasTcx ? this.#attachTcx(program, point) : this.#attachFilter(program, point);
    this.#placed.set(keyOf(ifindex, direction), { program, path, linkId });
  }

  detach(ifindex: number, direction: Direction): void {
    const placed = this.#placed.get(keyOf(ifindex, direction));
    if (placed === undefined) return;
    if (existsSync(placed.path)) {
      detachPinned(placed.path, (id) => removeFilter(ifindex, direction, id));
    }
    this.#placed.delete(keyOf(ifindex, direction));
  }

  /** In two steps, because two devices may have exchanged their names. */
  rename(names: ReadonlyMap<number, string>): void {
    const renamed = [...names].flatMap(([ifindex, name]) =>
      DIRECTIONS.flatMap((direction) => {
        const placed = this.#placed.get(keyOf(ifindex, direction));
        return placed === undefined ? [] : [{ placed, name, ifindex }];
      }),
    );
    for (const { placed, ifindex } of renamed) move(placed, `${placed.program}@~${ifindex}`);
    for (const { placed, name } of renamed) move(placed, linkPin(placed.program, name));
  }

  isAttached(ifindex: number, direction: Direction): boolean {
    const placed = this.#placed.get(keyOf(ifindex, direction));
    if (placed === undefined) return false;
    if (placed.linkId !== undefined) return isLinkOf(ifindex, direction, placed.linkId);
    const { id } = this.#program(placed.program).info;
    return findFilter(ifindex, direction, id) !== undefined;
  }

  order(ifindex: number, direction: Direction): readonly string[] {
    const links = native.tcxPrograms(ifindex, direction) ?? [];
    const names = links.map((one) => this.#nameOf(one));
    const placed = this.#placed.get(keyOf(ifindex, direction));
    if (placed === undefined || placed.linkId !== undefined) return names;
    const { priority } = filterKey(this.#isFirst(direction));
    return [...names, `${placed.program} (clsact, priority ${priority})`];
  }

  #attachTcx(program: string, { ifindex, direction, path }: AttachPoint): number {
    const where = this.#isFirst(direction) ? { before: 0 } : { after: 0 };
    const link = this.#program(program).attachTc(ifindex, direction, where);
    try {
      link.pin(path);
      return link.id;
    } catch (error) {
      link.detach();
      throw error;
    } finally {
      link.close();
    }
  }

  /** The pin comes first, so that no filter is ever nobody's. */
  #attachFilter(name: string, { ifindex, direction, path }: AttachPoint): undefined {
    const program = this.#program(name);
    program.pin(path);
    try {
      putFilter(program, ifindex, direction, { key: filterKey(this.#isFirst(direction)) });
    } catch (error) {
      unpin(path);
      throw error;
    }
  }

  /** Its program by the loaded one. undefined: it is attached to no device of this namespace. */
  #replace(pin: DevicePin): { ifindex: number; linkId: number | undefined } | undefined {
    const pinned = openLinkPin(pin.path);
    if (pinned.kind === 'filter') return this.#replaceFilter(pin, pinned.programId);
    const { link } = pinned;
    try {
      const { id, ifindex = 0 } = link;
      if (!isLinkOf(ifindex, pin.direction, id)) return undefined;
      if (!this.#isInOrder(ifindex, pin.direction, id)) return this.#attachAnew(pin, ifindex, link);
      link.update(this.#program(pin.program));
      return { ifindex, linkId: id };
    } catch {
      return undefined; // The device has just gone.
    } finally {
      link.close();
    }
  }

  /** The order was chosen anew, or somebody else came in front. Both run for a moment: a translated packet matches no more. */
  #attachAnew({ program, direction, path }: DevicePin, ifindex: number, old: BpfLink) {
    const linkId = this.#attachTcx(program, { ifindex, direction, path: `${path}~` });
    old.detach();
    renameSync(`${path}~`, path);
    return { ifindex, linkId };
  }

  #isInOrder(ifindex: number, direction: Direction, linkId: number): boolean {
    const programs = native.tcxPrograms(ifindex, direction) ?? [];
    return programs.at(this.#isFirst(direction) ? 0 : -1)?.linkId === linkId;
  }

  #replaceFilter({ path, program: name, direction, device }: DevicePin, programId: number) {
    const ifindex = this.#devices(device).find(
      (one) => findFilter(one, direction, programId) !== undefined,
    );
    if (ifindex === undefined) return undefined;
    const remove = (id: number): void => removeFilter(ifindex, direction, id);
    const next = `${path}~`;
    try {
      // Of an agent that was killed here.
      if (existsSync(next)) detachPinned(next, remove);
      const program = this.#program(name);
      // Pinned first, as in attachFilter.
      program.pin(next);
      const key = filterKey(this.#isFirst(direction));
      putFilter(program, ifindex, direction, { key, replaces: programId });
      remove(programId);
      renameSync(next, path);
      return { ifindex, linkId: undefined };
    } catch {
      // Somebody else's filter is where it belongs, or the device has just gone.
      if (existsSync(next)) detachPinned(next, remove);
      remove(programId);
      return undefined;
    }
  }

  /** Of the namespace, the one with this name first. */
  #devices(name: string): readonly number[] {
    const links = [...this.#parts.links()];
    const isNamed = (link: Named): boolean => link.name === name;
    return [...links.filter(isNamed), ...links.filter((link) => !isNamed(link))].map(
      ({ ifindex }) => ifindex,
    );
  }

  #isFirst(direction: Direction): boolean {
    return (direction === 'ingress') === (this.#parts.order === 'outer');
  }

  #program(name: string): BpfProgram {
    const program = this.#parts.programs.get(name);
    if (program === undefined) throw new TypeError(`no object has a program ${name}`);
    return program;
  }

  /** Names of other programs need CAP_SYS_ADMIN. */
  #nameOf({ programId, name }: { readonly programId: number; readonly name: string }): string {
    const own = [...this.#parts.programs].find(([, { info }]) => info.id === programId);
    return own?.[0] ?? (name === '' ? `program ${programId}` : name);
  }
}

interface AttachPoint {
  readonly ifindex: number;
  readonly direction: Direction;
  readonly path: string;
}

const keyOf = (ifindex: number, direction: Direction): string => `${ifindex}/${direction}`;

/** A link tells the ifindex in the namespace of its device, which may be another one. */
function isLinkOf(ifindex: number, direction: Direction, linkId: number): boolean {
  if (ifindex === 0) return false;
  const programs = native.tcxPrograms(ifindex, direction) ?? [];
  return programs.some((one) => one.linkId === linkId);
}

function move(placed: Placed, pin: string): void {
  const path = join(dirname(placed.path), pin);
  renameSync(placed.path, path);
  placed.path = path;
}
