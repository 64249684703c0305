// SPDX-License-Identifier: Apache-2.0
// One service port of the plan -> its desired entries in the kernel's tables, still without ids: backends by
// address, sets as lists of backends, frontends with the traffic rule of each client position.
// Pure. The plan has decided all policy.
import { hostPort } from '../../../../lib/address-bytes.ts';
import type { Algorithm, Family } from '../../../../model/types.ts';
import { algorithmFor } from '../../../../plan/decide/balancing.ts';
import type {
  BackendList,
  ClientPosition,
  Frontend,
  Scope,
  ServicePortPlan,
  TrafficRule,
} from '../../../../plan/types.ts';
import { BPF, keepsLocalClient } from '../../../capabilities.ts';
import { type FrontendId, frontendText } from '../../../entry.ts';
import { MAX_MEMBERS, POSITIONS, type RulePosition, type RuleValue } from '../../layout/layout.ts';

/** Of a frontend, at every position. */
type Traits = Pick<RuleValue, 'keepsLocalClient' | 'hasSourceRanges'>;

/** A traffic rule of the plan; without a scope its set is always empty. */
export interface RenderedRule extends Omit<TrafficRule, 'scope'>, Traits {
  readonly scope: Scope | undefined;
  readonly algorithm: Algorithm;
}

/** What some rules of a port choose from. */
export interface RenderedSet {
  readonly scope: Scope;
  readonly algorithm: Algorithm;
  readonly backends: BackendList;
}

export interface RenderedFrontend {
  /** `10.96.0.10:80/TCP`, `[fd00::1]:80/UDP`, `*:30080/TCP`, `10.96.0.10:*`: unique within a family. */
  readonly text: string;
  readonly key: FrontendId;
  readonly rules: Readonly<Record<RulePosition, RenderedRule>>;
  readonly isEndpointPort: boolean;
}

function renderFrontend(frontend: Frontend, port: ServicePortPlan): RenderedFrontend {
  const key: FrontendId = {
    family: port.family,
    address: frontend.address,
    port: frontend.port,
    protocol: port.protocol,
  };
  const traits = {
    keepsLocalClient: keepsLocalClient(BPF, frontend),
    hasSourceRanges: frontend.isFiltered === true,
  };
  const ruleOf = (position: ClientPosition): RenderedRule =>
    renderRule(frontend.rules[position], traits, algorithmFor(port, frontend, position));
  const host = ruleOf('host');
  return {
    text: frontendText(key),
    key,
    // A socket whose position is unknown is treated as one of the node.
    rules: { unknown: host, host, pod: ruleOf('pod'), outside: ruleOf('outside') },
    isEndpointPort: frontend.isEndpointPort ?? false,
  };
}

/** Three for each frontend of each changed Service: field by field, because two spreads take ten times as long. */
function renderRule(
  { scope, whenEmpty, masquerade, directReturn, ipip }: TrafficRule,
  { keepsLocalClient: keeps, hasSourceRanges }: Traits,
  algorithm: Algorithm,
): RenderedRule {
  const rule = {
    scope,
    whenEmpty,
    masquerade,
    keepsLocalClient: keeps,
    hasSourceRanges,
    algorithm,
  };
  return directReturn === undefined ? rule : { ...rule, directReturn, ...(ipip && { ipip }) };
}

const REFUSE: RenderedRule = {
  scope: undefined,
  algorithm: 'random',
  whenEmpty: 'reject',
  masquerade: false,
  keepsLocalClient: false,
  hasSourceRanges: false,
};

/** Connections to other ports of a ClusterIP are refused, as in kube-proxy's nftables mode. */
function otherPorts(address: string, family: Family): RenderedFrontend {
  const key: FrontendId = { family, address, port: undefined, protocol: undefined };
  return {
    text: frontendText(key),
    key,
    rules: { unknown: REFUSE, host: REFUSE, pod: REFUSE, outside: REFUSE },
    isEndpointPort: false,
  };
}

/** The backends in the scope's set, as `address:port`, in plan order. */
export const setNames = (port: ServicePortPlan, scope: Scope): readonly string[] =>
  setOf(port, scope).map(({ address, port: number }) => hostPort(address, number));

const setOf = (port: ServicePortPlan, scope: Scope): BackendList =>
  port[scope].length > MAX_MEMBERS ? [...port[scope]].slice(0, MAX_MEMBERS) : port[scope];

export function renderFrontends(port: ServicePortPlan): readonly RenderedFrontend[] {
  const { frontends, family, refusesOtherPortsOf } = port;
  const rendered = frontends.map((frontend) => renderFrontend(frontend, port));
  if (refusesOtherPortsOf !== undefined) rendered.push(otherPorts(refusesOtherPortsOf, family));
  return rendered;
}

/** Who comes first has room first: more clients depend on the set of all endpoints. */
const SCOPES: readonly Scope[] = ['cluster', 'local'];

/** What the frontends choose from, truncated to the maximum size of a set: one for each scope and algorithm. */
export function renderSets(
  port: ServicePortPlan,
  frontends: readonly RenderedFrontend[],
): readonly RenderedSet[] {
  const sets: RenderedSet[] = [];
  for (const scope of SCOPES) {
    for (const { rules } of frontends) {
      for (const position of POSITIONS) {
        const { scope: own, algorithm } = rules[position];
        if (own !== scope || isIn(sets, scope, algorithm)) continue;
        sets.push({ scope, algorithm, backends: setOf(port, scope) });
      }
    }
  }
  return sets;
}

const isIn = (sets: readonly RenderedSet[], scope: Scope, algorithm: Algorithm): boolean =>
  sets.some((set) => set.scope === scope && set.algorithm === algorithm);
