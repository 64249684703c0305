// SPDX-License-Identifier: Apache-2.0
// Maglev tables that the next apply needs, made before it, in steps between which the event loop may run.
import { maglevInput } from '../../../plan/maglev/input.ts';
import { type MaglevInput, populate } from '../../../plan/maglev/table.ts';
import type { BackendList, Plan, Scope, ServiceKey, ServicePortPlan } from '../../../plan/types.ts';
import { backendKey } from '../layout/backend-key.ts';
import { type Ledger, type PortRecord, portOf } from '../state/ledger.ts';
import { sharesOf } from './service-port/maglev-content.ts';
import { renderFrontends, renderSets } from './service-port/render.ts';

const keyOf = ({ key }: Pick<ServicePortPlan, 'key'>, scope: Scope): string => `${key} ${scope}`;

/** What was made for a port's set; undefined: nothing. */
export const madeTable = (
  { maglevTables }: Pick<Ledger, 'maglevTables'>,
  port: Pick<ServicePortPlan, 'key'>,
  scope: Scope,
): Uint16Array | undefined => maglevTables.get(keyOf(port, scope));

/** Makes those that the kernel does not have yet. A port's table may be made in vain: nothing depends on it. */
export function* makeTables(
  ledger: Ledger,
  plan: Plan,
  services: Iterable<ServiceKey>,
): Generator<void, void> {
  for (const service of services) {
    for (const port of plan.services.get(service)?.ports ?? []) {
      if (!usesMaglev(port)) continue;
      yield* makeOf(ledger, service, port);
    }
  }
}

const usesMaglev = ({ algorithm, externalAlgorithm }: ServicePortPlan): boolean =>
  algorithm === 'maglev' || externalAlgorithm === 'maglev';

function* makeOf(
  ledger: Ledger,
  service: ServiceKey,
  port: ServicePortPlan,
): Generator<void, void> {
  const record = portOf(ledger, service, port.key);
  for (const { scope, algorithm, backends } of renderSets(port, renderFrontends(port))) {
    if (algorithm !== 'maglev' || backends.length === 0) continue;
    const input = maglevInput(port, backends);
    if (record !== undefined && isHeld(ledger, record, backends, input)) continue;
    ledger.maglevTables.set(keyOf(port, scope), yield* populate(input));
    yield;
  }
}

/** Whether a set of the port has these backends and weights. */
function isHeld(
  { caches, damagedBackends }: Ledger,
  { sets, family }: PortRecord,
  backends: BackendList,
  { weights, entries }: MaglevInput,
): boolean {
  const shares = sharesOf(weights);
  const candidates = sets.filter(
    ({ maglev, members, isDamaged }) =>
      !isDamaged &&
      maglev?.entries === entries &&
      maglev.shares === shares &&
      members.length === backends.length,
  );
  if (candidates.length === 0) return false;
  const keys = new Set(backends.map((backend) => backendKey(backend, family)));
  return candidates.some(({ members }) =>
    members.every((id) => !damagedBackends.has(id) && keys.has(caches.backend[family].key(id))),
  );
}
