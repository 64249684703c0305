// SPDX-License-Identifier: Apache-2.0
// The programs of XDP, loaded when the first device may use them: fl_xdp over the maps of the packet layer, and those that try
// and watch devices.
import { statSync } from 'node:fs';
import { FairleadError } from '../../../../errors.ts';
import { deviceOffsets } from '../../../../sys/btf/net-device.ts';
import type { BpfLink, BpfMap, BpfProgram } from '../../../../sys/native.ts';
import { featureRodata } from '../../features.ts';
import { type Attached, attachLayer, mapNamed } from '../../kernel/loader/attach.ts';
import type { Rodata } from '../../layer.ts';
import { encodeU32 } from '../../layout/layout.ts';
import type { Features } from '../../layout/packet-layout.ts';

export interface XdpObjects {
  /** xdp.bpf.o and xdp_watch.bpf.o. */
  readonly forward: () => Uint8Array;
  readonly watch: () => Uint8Array;
}

export const readObjects = (read: (name: string) => Uint8Array): XdpObjects => ({
  forward: () => read('xdp.bpf.o'),
  watch: () => read('xdp_watch.bpf.o'),
});

export interface XdpProgramsParts {
  readonly objects: XdpObjects;
  readonly bpfRoot: string;
  readonly sizes: Readonly<Record<string, number>>;
  readonly features: Features;
  /** Of the packet layer. */
  readonly maps: ReadonlyMap<string, BpfMap>;
}

export interface LoadedXdp {
  /** By name. */
  readonly program: (name: string) => BpfProgram;
  /** fl_xdp_count. */
  readonly counts: BpfMap;
  /** fl_xdp_link, which is this load's own. */
  readonly links: BpfMap;
  close(): void;
}

export const XDP_PROGRAM = 'fl_xdp';

/** BPF_F_XDP_HAS_FRAGS (Linux 5.18): devices whose frames do not fit into a page take the program, too. */
const HAS_FRAGS = 1 << 5;
const TRACEPOINTS = {
  fl_xdp_redirected: 'xdp_devmap_xmit',
  fl_xdp_returned: 'xdp_bulk_tx',
  fl_xdp_refused: 'xdp_redirect_err',
  fl_xdp_aborted: 'xdp_exception',
};
const TRIAL_PROGRAMS = ['fl_xdp_trial', 'fl_xdp_send'];
const WATCH_PROGRAMS = [...TRIAL_PROGRAMS, ...Object.keys(TRACEPOINTS)];

/** Throws FairleadError. */
export async function loadXdp(parts: XdpProgramsParts): Promise<LoadedXdp> {
  const ends = await Promise.allSettled([loadForward(parts), loadWatch(parts)]);
  const loaded = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
  const links: BpfLink[] = [];
  const close = (): void => {
    for (const part of [...links, ...loaded]) part.close();
  };
  try {
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    const programs = new Map(loaded.flatMap(({ programs: some }) => [...some]));
    const program = (name: string): BpfProgram => {
      const found = programs.get(name);
      if (found === undefined) throw new TypeError(`no object has a program ${name}`);
      return found;
    };
    for (const [name, tracepoint] of Object.entries(TRACEPOINTS)) {
      links.push(program(name).attachTracepoint(tracepoint));
    }
    const maps = new Map(loaded.flatMap(({ maps: some }) => [...some]));
    const counts = mapNamed(maps, 'fl_xdp_count');
    return { program, counts, links: mapNamed(maps, 'fl_xdp_link'), close };
  } catch (error) {
    close();
    throw error;
  }
}

const loadForward = ({
  objects,
  bpfRoot,
  sizes,
  features,
  maps,
}: XdpProgramsParts): Promise<Attached> =>
  attachLayer({
    layer: {
      name: 'XDP layer',
      objects: [
        {
          bytes: objects.forward(),
          rodata: [featureRodata(features)],
          programFlags: { [XDP_PROGRAM]: HAS_FRAGS },
        },
      ],
      hooks: [],
      keeps: [XDP_PROGRAM],
    },
    ...{ bpfRoot, sizes, maps },
  });

const loadWatch = async ({ objects, bpfRoot, sizes }: XdpProgramsParts): Promise<Attached> =>
  attachLayer({
    layer: {
      name: 'watch of XDP',
      objects: [
        {
          bytes: objects.watch(),
          rodata: [watchSettings()],
          programFlags: { fl_xdp_trial: HAS_FRAGS },
        },
      ],
      hooks: [],
      keeps: WATCH_PROGRAMS,
    },
    ...{ bpfRoot, sizes },
  });

/** Throws PROGRAM_REFUSED. */
function watchSettings(): Rodata {
  const offsets = deviceOffsets();
  if (offsets === undefined) {
    throw new FairleadError(
      'PROGRAM_REFUSED',
      'this kernel has no /sys/kernel/btf/vmlinux, so frames that XDP loses cannot be counted: boot a distribution kernel, or leave out --xdp',
    );
  }
  return {
    net_device_ifindex_at: encodeU32(offsets.ifindexAt),
    net_device_net_at: encodeU32(offsets.netAt),
    net_inum_at: encodeU32(offsets.inumAt),
    netns_inum: encodeU32(statSync('/proc/self/ns/net').ino),
  };
}
