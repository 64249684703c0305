// SPDX-License-Identifier: Apache-2.0
// Asks the kernel which BPF programs are at the hooks that fairlead uses: tcx, clsact and XDP of devices, and those of a cgroup.
import * as native from '../../sys/native.ts';
import { clsactDevices, clsactFilters } from '../../sys/netlink/clsact-filters.ts';
import type { Network } from '../../sys/netlink/network.ts';
import { xdpPrograms } from '../../sys/netlink/xdp-program.ts';
import type { HookProgram, HookPrograms } from '../facts.ts';

/** Values of enum bpf_attach_type. */
const CGROUP_HOOKS = {
  connect4: 10,
  connect6: 11,
  post_bind4: 12,
  post_bind6: 13,
  sendmsg4: 14,
  sendmsg6: 15,
  recvmsg4: 19,
  recvmsg6: 20,
  getpeername4: 29,
  getpeername6: 30,
  sock_release: 34,
} as const;
const DIRECTIONS = ['ingress', 'egress'] as const;

/** Hooks of devices that have programs. Throws the kernel's errno. */
export function devicePrograms({ links }: Network): readonly HookPrograms[] {
  const withQdisc = clsactDevices();
  const xdp = xdpPrograms();
  const ofDevices = [...links.values()].flatMap(({ ifindex, name: on }) => [
    ...xdpOf(xdp.get(ifindex)).map((programs) => ({ hook: 'XDP', on, programs })),
    ...DIRECTIONS.flatMap((direction) => [
      { hook: `tcx ${direction}`, on, programs: tcxOf(ifindex, direction) },
      ...(withQdisc.has(ifindex)
        ? [{ hook: `clsact ${direction}`, on, programs: filtersOf(ifindex, direction) }]
        : []),
    ]),
  ]);
  return ofDevices.filter(({ programs }) => programs.length > 0);
}

const xdpOf = (id: number | undefined): readonly (readonly HookProgram[])[] =>
  id === undefined ? [] : [[{ id, name: native.programName(id) }]];

type Direction = (typeof DIRECTIONS)[number];

/** Of a device that has just gone, none. */
function tcxOf(ifindex: number, direction: Direction): readonly HookProgram[] {
  try {
    return (native.tcxPrograms(ifindex, direction) ?? []).map(programOf);
  } catch {
    return [];
  }
}

/** libbpf names filters `name:[id]`. */
const filtersOf = (ifindex: number, direction: Direction): readonly HookProgram[] =>
  clsactFilters(ifindex, direction).map(({ id, name }) => ({
    id,
    name: name.replace(/:\[\d+\]$/, ''),
  }));

/** Hooks of a cgroup that have programs. Throws the kernel's errno, EBADF if it is none of cgroup v2. */
export const cgroupPrograms = (cgroup: string): readonly HookPrograms[] =>
  Object.entries(CGROUP_HOOKS)
    .map(([hook, type]) => ({
      ...{ hook, on: cgroup },
      programs: (native.cgroupPrograms(cgroup, type) ?? []).map(programOf),
    }))
    .filter(({ programs }) => programs.length > 0);

const programOf = ({
  programId,
  name,
}: {
  readonly programId: number;
  readonly name: string;
}): HookProgram => ({ id: programId, name });
