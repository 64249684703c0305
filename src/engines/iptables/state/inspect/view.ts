// SPDX-License-Identifier: Apache-2.0
// What iptables-save prints -> frontends and backends, whoever wrote the rules: those of kube-proxy have the same
// names. What is not in its layout is not shown.
import type { Family, Protocol } from '../../../../model/types.ts';
import { IPTABLES } from '../../../capabilities.ts';
import type { HeldFrontend } from '../../../dataplane.ts';
import type { FrontendId } from '../../../entry.ts';
import { backendViews } from '../../../rules/backends.ts';
import type { FrontendView, PortId, Snapshot } from '../../../snapshot.ts';
import { parseTables } from '../../rules/parse.ts';
import type { Rule } from '../../rules/types.ts';
import { type BackendSets, backendSets } from './sets.ts';

const { dataplane } = IPTABLES;

export function snapshotOf(family: Family, saved: string): Snapshot {
  const rules = readRules(saved);
  const frontends = frontendViews(family, rules);
  return { frontends, backends: backendViews(frontends) };
}

/** With the refusals of a ClusterIP's other ports. */
export function heldFrontends(family: Family, saved: string): readonly HeldFrontend[] {
  const rules = readRules(saved);
  return [
    ...frontendViews(family, rules).map(({ id, port }) => ({
      ...{ dataplane, id, service: `${port.namespace}/${port.name}` },
    })),
    ...otherPorts(family, rules),
  ];
}

type RulesOf = (table: string, chain: string) => readonly Rule[];

interface ReadRules {
  readonly rulesOf: RulesOf;
  readonly sets: BackendSets;
}

function readRules(saved: string): ReadRules {
  const parsed = parseTables(saved);
  if (!parsed.ok) throw new Error(`iptables-save, line ${parsed.line}: ${parsed.reason}`);
  const tables = new Map(
    parsed.tables.map(({ name, chains }) => [
      name,
      new Map(chains.map((chain) => [chain.name, chain.rules])),
    ]),
  );
  const rulesOf: RulesOf = (table, chain) => tables.get(table)?.get(chain) ?? [];
  return { rulesOf, sets: backendSets((chain) => rulesOf('nat', chain)) };
}

/** A rule of a shared chain that is about a frontend. */
interface FrontendRule {
  readonly id: FrontendId;
  readonly port: PortId;
  readonly rule: Rule;
}

/** Frontends with backends are in nat, those without any in filter, those with some of them in both. */
function frontendViews(family: Family, { rulesOf, sets }: ReadRules): readonly FrontendView[] {
  const served = [
    ...frontendRules(family, rulesOf('nat', 'KUBE-SERVICES')),
    ...frontendRules(family, rulesOf('nat', 'KUBE-NODEPORTS')),
  ];
  const refused = [
    ...frontendRules(family, rulesOf('filter', 'KUBE-SERVICES')),
    ...frontendRules(family, rulesOf('filter', 'KUBE-EXTERNAL-SERVICES')),
  ];
  const views = new Map<string, FrontendView>();
  for (const { id, port, rule } of served) {
    const { target } = rule;
    const chain = target?.kind === 'jump' ? target.chain : '';
    views.set(JSON.stringify(id), { ...emptyView(id, port), ...sets.of(chain) });
  }
  for (const { id, port, rule } of refused) {
    const known = views.get(JSON.stringify(id)) ?? emptyView(id, port);
    views.set(JSON.stringify(id), { ...known, ...whenEmpty(rule) });
  }
  return [...views.values()];
}

function whenEmpty({ target }: Rule): Pick<FrontendView, 'internalEmpty' | 'externalEmpty'> {
  const verdict = target?.kind === 'reject' ? 'reject' : 'drop';
  return { internalEmpty: verdict, externalEmpty: verdict };
}

/** Without counters: see IPTABLES. */
const emptyView = (id: FrontendId, port: PortId): FrontendView => ({
  ...{ dataplane, id, port, internal: [], external: [], affinitySeconds: 0 },
  ...{ internalEmpty: 'reject', externalEmpty: 'reject' },
});

/** `default/web:http cluster IP`; without a colon for an unnamed port. */
const NAMED = /^(?<namespace>[^/\s]+)\/(?<name>[^\s:]+)(?::(?<portName>\S+))?/;

function frontendRules(family: Family, rules: readonly Rule[]): readonly FrontendRule[] {
  return rules.flatMap((rule): readonly FrontendRule[] => {
    const { comment = '', protocol, destinationPort } = rule;
    const names = NAMED.exec(comment)?.groups;
    if (names === undefined || protocol === undefined || destinationPort === undefined) return [];
    const id = { family, address: addressOf(rule), port: destinationPort, protocol };
    return [{ id, port: portId(names, protocol, family), rule }];
  });
}

const portId = (
  { namespace = '', name = '', portName = '' }: Readonly<Record<string, string | undefined>>,
  protocol: Protocol,
  family: Family,
): PortId => ({ namespace, name, portName, protocol, family });

/** undefined: of NodePorts, which may name a range of addresses. */
function addressOf({ destination, isDestinationLocal }: Rule): string | undefined {
  if (destination === undefined || isDestinationLocal) return undefined;
  const [address = '', length] = destination.prefix.split('/');
  const isHost = length === (address.includes(':') ? '128' : '32');
  return isHost ? address : undefined;
}

function otherPorts(family: Family, { rulesOf }: ReadRules): readonly HeldFrontend[] {
  return rulesOf('filter', 'KUBE-CLUSTER-IPS').flatMap((rule): readonly HeldFrontend[] => {
    const names = NAMED.exec(rule.comment ?? '')?.groups;
    const address = addressOf(rule);
    if (names === undefined || address === undefined) return [];
    const service = `${names['namespace']}/${names['name']}`;
    return [{ dataplane, id: { family, address, port: undefined, protocol: undefined }, service }];
  });
}
