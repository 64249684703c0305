// SPDX-License-Identifier: Apache-2.0
// The addresses of this node that answer NodePorts, as the kernel's table of node addresses.
// Pure over Tables.
import { addressBytes, addressText } from '../../../../lib/address-bytes.ts';
import { isLoopback, prefixContains } from '../../../../lib/ip.ts';
import { FAMILIES, type Family } from '../../../../model/types.ts';
import type { Plan } from '../../../../plan/types.ts';
import type { FailedEntry, NodeAddress } from '../../../dataplane.ts';
import type { Entry } from '../../../entry.ts';
import { type RowFailure, TrackedTable } from '../../../tracked-table.ts';
import { ADDRESS_SCOPE } from '../../layout/layout.ts';
import { differenceText, type RowCodec, type RowTable, rowsOf } from '../../layout/rows.ts';
import { writeFailure } from '../../state/failure.ts';
import type { Tables } from '../../state/tables.ts';

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

export interface NodeAddresses {
  /** Writes what has changed since the last sync, and what could not be written then. */
  follow(plan: Plan, local: readonly NodeAddress[]): readonly FailedEntry[];
  /** Compares with the tables, too. */
  audit(plan: Plan, local: readonly NodeAddress[]): NodeAudit;
}

interface NodeAudit {
  readonly drift: readonly Entry[];
  readonly failed: readonly FailedEntry[];
}

/** The tables contain exactly the accepted addresses. */
export function createNodeAddresses({ nodeAddress }: Pick<Tables, 'nodeAddress'>): NodeAddresses {
  const families = FAMILIES.map((family) => createFamily(nodeAddress[family], family));
  let last: { accepted: Plan['nodePortAddresses']; local: readonly NodeAddress[] } | undefined;
  const want = (plan: Plan, local: readonly NodeAddress[]): void => {
    if (last?.accepted === plan.nodePortAddresses && last.local === local) return;
    last = { accepted: plan.nodePortAddresses, local };
    const accepted = acceptedAddresses(plan, local);
    for (const family of families) family.want(accepted);
  };
  return {
    follow(plan, local) {
      want(plan, local);
      return families.flatMap((family) => family.write());
    },
    audit(plan, local) {
      want(plan, local);
      const audits = families.map((family) => family.audit());
      return {
        drift: audits.flatMap(({ drift }) => drift),
        failed: audits.flatMap(({ failed }) => failed),
      };
    },
  };
}

interface NodeFamily {
  want(accepted: readonly NodeAddress[]): void;
  write(): readonly FailedEntry[];
  audit(): NodeAudit;
}

function createFamily(table: RowTable, family: Family): NodeFamily {
  const rows = new TrackedTable(rowsOf(table, codecOf(family)));
  const entry = (address: string, what = ''): Entry => ({
    id: { kind: 'node-address', family, address },
    text: `node address ${address}${what}`,
  });
  const failure = ({ key, code, desired }: RowFailure<string, number>): FailedEntry => ({
    ...entry(key),
    ...writeFailure(table.name, code, desired === undefined ? STILL_ANSWERS : DOES_NOT_ANSWER),
  });
  return {
    want(accepted) {
      const mine = accepted.filter((address) => address.family === family);
      rows.setAll(new Map(mine.map(({ address }) => [address, scopeOf(address)])));
    },
    write: () => (rows.isDone ? [] : rows.write().map(failure)),
    audit() {
      const { repaired, failed } = rows.audit();
      const drift = repaired.map((one) => entry(one.key, ` ${differenceText(one, NOT_ACCEPTED)}`));
      return { drift, failed: failed.map(failure) };
    },
  };
}

const STILL_ANSWERS = 'NodePorts still answer on this address';
const DOES_NOT_ANSWER = 'NodePorts do not answer on this address';
const NOT_ACCEPTED = 'does not answer NodePorts';

const codecOf = (family: Family): RowCodec<string, number> => ({
  encodeKey: (address) => addressBytes(address, family),
  decodeKey: addressText,
  encodeValue: (scope) => Uint8Array.of(scope, 0, 0, 0),
  decodeValue: ([scope = 0]) => scope,
});

const scopeOf = (address: string): number =>
  isLoopback(address) ? ADDRESS_SCOPE.loopback : ADDRESS_SCOPE.node;
