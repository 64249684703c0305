// SPDX-License-Identifier: Apache-2.0
// A layer of the dataplane as data: which objects are loaded, with which settings, and where their programs
// are attached. Objects that declare a map of the same name share it.
import type { SocketScope } from '../snapshot.ts';

export interface Layer {
  /** For errors: `socket layer`. */
  readonly name: string;
  /** Loaded in this order. */
  readonly objects: readonly LayerObject[];
  /** Attached in this order, after all objects are loaded. */
  readonly hooks: readonly Hook[];
  /** Programs that the caller attaches, and which therefore stay loaded. */
  readonly keeps?: readonly string[];
}

export interface LayerObject {
  readonly bytes: Uint8Array;
  /**
   * Values of `const volatile` variables. If the kernel refuses a program with the first set (a helper that
   * it does not have), the next is tried.
   */
  readonly rodata: readonly Rodata[];
  /** BTF with what programs read of the kernel's structs; undefined: libbpf reads all of the kernel's. */
  readonly kernelTypes?: Uint8Array | undefined;
  /** Programs that are not loaded. */
  readonly without?: readonly string[];
  /** BPF_F_* of single programs. */
  readonly programFlags?: Readonly<Record<string, number>>;
  /** Programs that the kernel verifies while it verifies the others. */
  readonly apart?: readonly string[];
}

export type Rodata = Readonly<Record<string, Uint8Array>>;

export interface Hook {
  readonly program: string;
  readonly target: Target;
}

/** libbpf derives the attach type of a cgroup program from its section. */
export type Target =
  | { readonly kind: 'cgroup'; readonly path: string }
  | {
      readonly kind: 'device';
      readonly device: string;
      readonly ifindex: number;
      readonly at: 'ingress' | 'egress';
    };

/** In the order of attaching: reverse translation works before any connection is translated. */
export const SOCKET_HOOKS: readonly string[] = [
  'fl_recvmsg4',
  'fl_recvmsg6',
  'fl_getpeername4',
  'fl_getpeername6',
  'fl_sock_release',
  'fl_sendmsg4',
  'fl_sendmsg6',
  'fl_connect4',
  'fl_connect6',
  'fl_bind4',
  'fl_bind6',
];

/** Attached to devices, which come and go. */
export const ETHERNET_PROGRAMS: readonly string[] = ['fl_ingress', 'fl_egress'];
/** To those whose packets have no Ethernet header. */
export const L3_PROGRAMS: readonly string[] = ['fl_ingress_l3', 'fl_egress_l3'];
export const DEVICE_PROGRAMS: readonly string[] = [...ETHERNET_PROGRAMS, ...L3_PROGRAMS];

/** Attached to devices that forward before those: see devices/early-path.ts. */
export const EARLY_PROGRAMS: readonly string[] = ['fl_xdp'];

/** The programs whose links are pinned, of all layers. */
export const isHookProgram = (program: string): boolean =>
  [...SOCKET_HOOKS, ...DEVICE_PROGRAMS, ...EARLY_PROGRAMS].includes(program);

/** enum socket_scope of bpf/socket/scope.h. */
const SCOPES: readonly SocketScope[] = ['pods', 'host', 'auto'];

export interface SocketSettings {
  readonly cgroupRoot: string;
  /** Of the node's own network namespace; undefined on kernels before 5.14. */
  readonly netnsCookie: bigint | undefined;
  /** Processes of the node cannot bind NodePorts. */
  readonly protectsNodePorts: boolean;
  readonly socketScope: SocketScope;
  readonly kernelTypes?: LayerObject['kernelTypes'];
}

export function socketLayer(bytes: Uint8Array, settings: SocketSettings): Layer {
  const { cgroupRoot, netnsCookie, protectsNodePorts, socketScope, kernelTypes } = settings;
  const cookie = new Uint8Array(new BigUint64Array([netnsCookie ?? 0n]).buffer);
  const rodata = [true, false].map((canSetRetval) => ({
    node_netns_cookie: cookie,
    can_set_retval: Uint8Array.of(Number(canSetRetval)),
    protects_node_ports: Uint8Array.of(Number(protectsNodePorts)),
    socket_scope: Uint8Array.of(SCOPES.indexOf(socketScope)),
  }));
  const target: Target = { kind: 'cgroup', path: cgroupRoot };
  return {
    name: 'socket layer',
    objects: [{ bytes, rodata, kernelTypes }],
    hooks: SOCKET_HOOKS.map((program) => ({ program, target })),
  };
}

/** False: refused connections show EPERM, because this kernel has no bpf_set_retval for socket hooks (before 6.1). */
export const canSetRetval = ([settings]: readonly Rodata[]): boolean =>
  settings?.['can_set_retval']?.[0] === 1;
