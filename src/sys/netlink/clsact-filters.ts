// SPDX-License-Identifier: Apache-2.0
// BPF filters of clsact qdiscs in this process's network namespace, in the order in which they run (linux/pkt_sched.h, pkt_cls.h).
import { reasonOf } from '../../errors.ts';
import { NLM_F, netlinkRequest } from './request.ts';
import { attributesIn, text, u32, viewOf } from './wire.ts';

export interface ClsactFilter {
  readonly id: number;
  readonly name: string;
}

const NETLINK_ROUTE = 0;
const RTM_GETQDISC = 38;
const RTM_GETTFILTER = 46;
/** `struct tcmsg`. */
const TCMSG_SIZE = 20;
const TCA = { KIND: 1, OPTIONS: 2 } as const;
const TCA_BPF = { NAME: 7, ID: 11 } as const;
const PARENT = { ingress: 0xfffffff2, egress: 0xfffffff3 } as const;

/** Devices that have such a qdisc, by ifindex. Throws the kernel's errno. */
export function clsactDevices(): ReadonlySet<number> {
  const qdiscs = dump(RTM_GETQDISC, 0, 0);
  const own = qdiscs.filter(
    (body) => text(attributesIn(body, TCMSG_SIZE, [TCA.KIND]).get(TCA.KIND)) === 'clsact',
  );
  return new Set(own.map((body) => u32(body, 4) ?? 0));
}

/** By priority. Empty if the device has just gone. Throws the kernel's errno. */
export function clsactFilters(ifindex: number, direction: keyof typeof PARENT): ClsactFilter[] {
  try {
    return dump(RTM_GETTFILTER, ifindex, PARENT[direction]).flatMap(filterOf);
  } catch (error) {
    if (['ENODEV', 'ENOENT', 'EINVAL'].includes(reasonOf(error))) return [];
    throw error;
  }
}

/** The kernel lists each priority by itself, too, without a program. */
function filterOf(body: Uint8Array): readonly ClsactFilter[] {
  const found = attributesIn(body, TCMSG_SIZE, Object.values(TCA));
  const options = found.get(TCA.OPTIONS);
  if (text(found.get(TCA.KIND)) !== 'bpf' || options === undefined) return [];
  const own = attributesIn(options, 0, Object.values(TCA_BPF));
  const id = u32(own.get(TCA_BPF.ID));
  return id === undefined ? [] : [{ id, name: text(own.get(TCA_BPF.NAME)) ?? '' }];
}

function dump(type: number, ifindex: number, parent: number): readonly Uint8Array[] {
  const body = new Uint8Array(TCMSG_SIZE);
  viewOf(body).setUint32(4, ifindex, true);
  viewOf(body).setUint32(12, parent, true);
  const asked = { protocol: NETLINK_ROUTE, type, flags: NLM_F.DUMP, body };
  return netlinkRequest(asked).map((message) => message.body);
}
