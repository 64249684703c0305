// SPDX-License-Identifier: Apache-2.0
// Targets of x_tables that redirect connections to a process of the same network namespace. Layouts: struct
// xt_entry_target, nf_nat_ipv4_multi_range_compat, nf_nat_range and nf_nat_range2 of the kernel. Pure.
import { text, viewOf } from './wire.ts';

export interface Redirect {
  readonly kind: 'REDIRECT' | 'TPROXY' | 'DNAT';
  /** '' where the kernel does not tell the chain of a rule (iptables-legacy). */
  readonly chain: string;
}

/** u16 size, then the name in 29 bytes and the revision. */
const TARGET_HEADER = 32;
const NAME = { from: 2, to: 31 } as const;
/** The target of an entry that only names a chain. */
const ERROR_NAME = { from: TARGET_HEADER, to: TARGET_HEADER + 30 } as const;
/** Of struct nf_nat_ipv4_multi_range_compat (DNAT, revision 0): count and flags before the address. */
const OLD_RANGE_AT = 8;
/** Of struct nf_nat_range and nf_nat_range2: flags before it. */
const RANGE_AT = 4;

/** The target of a rule that redirects; undefined: it is another one. @param info what belongs to the target alone */
export function targetRedirect(
  name: string,
  info: Uint8Array | undefined,
): Redirect['kind'] | undefined {
  if (name === 'REDIRECT' || name === 'TPROXY') return name;
  return name === 'DNAT' && info !== undefined && isDnatToLoopback(info) ? 'DNAT' : undefined;
}

/** Revision 0 has its count, 1, where the later ones have flags, of which 1 is an address. */
function isDnatToLoopback(info: Uint8Array): boolean {
  const isOld = info.length <= 24;
  const from = isOld ? OLD_RANGE_AT : RANGE_AT;
  const bytes = info.subarray(from, from + (isOld ? 4 : 16));
  return isLoopbackBytes(bytes) || isLoopbackBytes(bytes.subarray(0, 4));
}

/** 4 or 16 bytes of an address. */
export const isLoopbackBytes = (bytes: Uint8Array): boolean =>
  bytes.length === 4
    ? bytes[0] === 127
    : bytes.length === 16 && bytes.subarray(0, 15).every((byte) => byte === 0) && bytes[15] === 1;

/** Built-in chains have no name, and each table ends with one of the name ERROR. */
function chainNamed(target: Uint8Array): string {
  const chain = text(target.subarray(ERROR_NAME.from, ERROR_NAME.to)) ?? '';
  return chain === 'ERROR' ? '' : chain;
}

/** Of the targets of a table in the order of its rules: each entry that names a chain comes before its rules. */
export function xtRedirects(
  targets: readonly { readonly table: string; readonly target: Uint8Array }[],
): readonly Redirect[] {
  const found: Redirect[] = [];
  let chain = '';
  for (const { target } of targets) {
    if (target.length < TARGET_HEADER) continue;
    const name = text(target.subarray(NAME.from, NAME.to)) ?? '';
    const size = viewOf(target).getUint16(0, true);
    if (name === 'ERROR') chain = chainNamed(target);
    const kind = targetRedirect(name, target.subarray(TARGET_HEADER, size));
    if (kind !== undefined) found.push({ kind, chain });
  }
  return found;
}
