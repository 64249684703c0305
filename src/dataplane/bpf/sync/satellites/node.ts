// SPDX-License-Identifier: Apache-2.0
// The addresses of this node that answer NodePorts, as the kernel's table of node addresses.
// Pure over Tables.
import { addressBytes, addressText } from '../../../../lib/address-bytes.ts';
import { isLoopback, prefixContains } from '../../../../lib/ip.ts';
import { FAMILIES, type Family } from '../../../../model/types.ts';
import type { Plan } from '../../../../plan/types.ts';
import type { FailedEntry, NodeAddress } from '../../../dataplane.ts';
import { ADDRESS_SCOPE } from '../../maps/layout.ts';
import type { Tables } from '../../maps/tables.ts';
import { writeFailure } from '../failure.ts';

/** IPv6 loopback never accepts NodePorts (as in kube-proxy: there is no route_localnet for it). */
export function acceptedAddresses(
  plan: Plan,
  local: readonly NodeAddress[],
): readonly NodeAddress[] {
  return local.filter(({ family, address }) => {
    if (family === 'IPv6' && isLoopback(address)) return false;
    const accepted = plan.nodePortAddresses[family];
    return accepted === 'all' || accepted.some((cidr) => prefixContains(cidr, address));
  });
}

/** Makes the table contain exactly the accepted addresses. */
export function applyNodeAddresses(
  tables: Tables,
  accepted: readonly NodeAddress[],
): readonly FailedEntry[] {
  return FAMILIES.flatMap((family) => applyFamily(tables, family, accepted));
}

function applyFamily(
  tables: Tables,
  family: Family,
  accepted: readonly NodeAddress[],
): readonly FailedEntry[] {
  const table = tables.nodeAddress[family];
  const wanted = new Map(
    accepted
      .filter((address) => address.family === family)
      .map(({ address }) => [hex(addressBytes(address, family)), address]),
  );
  const held = table.readAll();
  const gone = held.filter(({ key }) => !wanted.has(hex(key)));
  const right = new Set(
    held
      .filter(({ key, value }) => value[0] === scopeOf(wanted.get(hex(key)) ?? ''))
      .map(({ key }) => hex(key)),
  );
  const missing = [...wanted].filter(([key]) => !right.has(key)).map(([, address]) => address);
  const failed = (address: string, code: string, consequence: string): FailedEntry => ({
    id: { kind: 'node-address', family, address },
    text: `node address ${address}`,
    ...writeFailure(table.name, code, consequence),
  });
  const kept = table
    .delete(gone.map(({ key }) => key))
    .map(({ index, code }) =>
      failed(
        addressText(gone[index]?.key ?? new Uint8Array(4)),
        code,
        'NodePorts still answer on this address',
      ),
    );
  const refused = table
    .put(
      missing.map((address) => addressBytes(address, family)),
      missing.map((address) => Uint8Array.of(scopeOf(address), 0, 0, 0)),
    )
    .map(({ index, code }) =>
      failed(missing[index] ?? '', code, 'NodePorts do not answer on this address'),
    );
  return [...kept, ...refused];
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

const scopeOf = (address: string): number =>
  isLoopback(address) ? ADDRESS_SCOPE.loopback : ADDRESS_SCOPE.node;
