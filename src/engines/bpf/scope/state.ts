// SPDX-License-Identifier: Apache-2.0
// Values of fl_netns (struct netns_scope of bpf/socket/types.h): what is known of a network namespace of pods, and why its
// sockets are served as packets. Keys are cookies of 8 bytes. Host byte order. Pure.
import type { Redirect } from '../../../sys/netlink/redirect.ts';

/** enum scope_state. */
export const SCOPE_STATES = ['asked', 'sockets', 'packets'] as const;
export type ScopeState = (typeof SCOPE_STATES)[number];

export interface ScopeEntry {
  /** Of the process that asked first, as the node's /proc names it; 0: none. */
  readonly tgid: number;
  readonly found: readonly Found[];
  readonly state: ScopeState;
}

/** Bits of `found`, by their index: append only. */
const FOUND = [
  'REDIRECT',
  'TPROXY',
  'DNAT',
  'Istio',
  'Linkerd',
  'Kuma',
  'Consul',
  /** No device with programs leads from it to the node: as packets nobody would serve it. */
  'no-way',
  /** It could not be entered, or was not found. */
  'unseen',
  /** --socket-scope host. */
  'host',
] as const;
export type Found = (typeof FOUND)[number];

export const ENTRY_SIZE = 8;
/** NETNS_UNKNOWN: the key of what holds for namespaces without an answer. */
export const UNKNOWN_NETNS = 0n;
const AT = { tgid: 0, found: 4, state: 6 } as const;

export function encodeScope({ tgid, found, state }: ScopeEntry): Uint8Array {
  const bytes = new Uint8Array(ENTRY_SIZE);
  const view = new DataView(bytes.buffer);
  view.setUint32(AT.tgid, tgid, true);
  const bits = found.reduce((sum, one) => sum | (1 << FOUND.indexOf(one)), 0);
  view.setUint16(AT.found, bits, true);
  view.setUint8(AT.state, SCOPE_STATES.indexOf(state));
  return bytes;
}

/** A state of a later version counts as `sockets`. */
export function decodeScope(bytes: Uint8Array): ScopeEntry {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const bits = view.getUint16(AT.found, true);
  return {
    tgid: view.getUint32(AT.tgid, true),
    found: FOUND.filter((_, index) => (bits & (1 << index)) !== 0),
    state: SCOPE_STATES[view.getUint8(AT.state)] ?? 'sockets',
  };
}

export const netnsKey = (cookie: bigint): Uint8Array =>
  new Uint8Array(new BigUint64Array([cookie]).buffer);

/** Chains by which meshes are known. */
const MESHES: readonly (readonly [Found, RegExp])[] = [
  ['Istio', /^ISTIO_/],
  ['Linkerd', /^PROXY_INIT_/],
  ['Kuma', /^(KUMA_)?MESH_/],
  ['Consul', /^CONSUL_/],
];

export function foundIn(redirects: readonly Redirect[]): readonly Found[] {
  const kinds = redirects.map(({ kind }): Found => kind);
  const meshes = MESHES.filter(([, pattern]) => redirects.some(({ chain }) => pattern.test(chain)));
  return [...new Set([...kinds, ...meshes.map(([mesh]) => mesh)])];
}

/** `its rules redirect connections (REDIRECT, TPROXY), as those of Istio`. */
export function reasonFor(found: readonly Found[]): string {
  if (found.includes('host')) return '--socket-scope is host';
  const kinds = found.filter((one) => ['REDIRECT', 'TPROXY', 'DNAT'].includes(one));
  const meshes = found.filter((one) => MESHES.some(([mesh]) => mesh === one));
  const like = meshes.length === 0 ? '' : `, as those of ${meshes.join(' and ')}`;
  if (found.includes('no-way') && kinds.length > 0)
    return `its rules redirect connections (${kinds.join(', ')})${like}, but no device with programs leads to it`;
  if (kinds.length > 0) return `its rules redirect connections (${kinds.join(', ')})${like}`;
  return found.includes('unseen') ? 'the agent does not see it' : 'its rules redirect nothing';
}
