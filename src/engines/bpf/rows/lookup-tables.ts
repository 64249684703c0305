// SPDX-License-Identifier: Apache-2.0
// Lookup tables that the next apply needs, made before it, in steps between which the event loop may run.
import { lookupOf } from '../../../plan/decide/balancing.ts';
import type { LookupInput } from '../../../plan/lookup-table.ts';
import type { BackendList, Plan, Scope, ServiceKey, ServicePortPlan } from '../../../plan/types.ts';
import { backendKey } from '../layout/backend-key.ts';
import { type Ledger, type PortRecord, portOf } from '../state/ledger.ts';
import { sharesOf } from './service-port/lookup-content.ts';
import { renderFrontends, renderSets } from './service-port/render.ts';

const keyOf = ({ key }: Pick<ServicePortPlan, 'key'>, scope: Scope): string => `${key} ${scope}`;

/** What was made for a port's set; undefined: nothing. */
export const madeTable = (
  { lookupTables }: Pick<Ledger, 'lookupTables'>,
  port: Pick<ServicePortPlan, 'key'>,
  scope: Scope,
): Uint16Array | undefined => lookupTables.get(keyOf(port, scope));

/** Makes those that the kernel does not have yet. A port's table may be made in vain: nothing depends on it. */
export function* makeTables(
  ledger: Ledger,
  plan: Plan,
  services: Iterable<ServiceKey>,
): Generator<void, void> {
  for (const service of services) {
    for (const port of plan.services.get(service)?.ports ?? []) {
      if (!hasLookup(port)) continue;
      yield* makeOf(ledger, service, port);
    }
  }
}

const hasLookup = ({ algorithm, externalAlgorithm }: ServicePortPlan): boolean =>
  lookupOf(algorithm ?? 'random') !== undefined ||
  (externalAlgorithm !== undefined && lookupOf(externalAlgorithm) !== undefined);

function* makeOf(
  ledger: Ledger,
  service: ServiceKey,
  port: ServicePortPlan,
): Generator<void, void> {
  const record = portOf(ledger, service, port.key);
  for (const { scope, algorithm, backends } of renderSets(port, renderFrontends(port))) {
    const lookup = lookupOf(algorithm);
    if (lookup === undefined || backends.length === 0) continue;
    const input = lookup.inputOf(port, backends);
    if (record !== undefined && isHeld(ledger, record, backends, input)) continue;
    ledger.lookupTables.set(keyOf(port, scope), yield* lookup.populate(input));
    yield;
  }
}

/** Whether a set of the port has these backends and weights. */
function isHeld(
  { caches, damagedBackends }: Ledger,
  { sets, family }: PortRecord,
  backends: BackendList,
  { weights, entries }: LookupInput,
): boolean {
  const shares = sharesOf(weights);
  const candidates = sets.filter(
    ({ lookup, members, isDamaged }) =>
      !isDamaged &&
      lookup?.entries === entries &&
      lookup.shares === shares &&
      members.length === backends.length,
  );
  if (candidates.length === 0) return false;
  const keys = new Set(backends.map((backend) => backendKey(backend, family)));
  return candidates.some(({ members }) =>
    members.every((id) => !damagedBackends.has(id) && keys.has(caches.backend[family].key(id))),
  );
}
