// SPDX-License-Identifier: Apache-2.0
// service- and local- chains: choose a backend of a set. endpoint- chains and affinity- sets: with session affinity, one
// backend, and the clients that it has had within the time.
import { hostPort } from '../../../lib/address-bytes.ts';
import { algorithmOf, weightFor } from '../../../plan/decide/balancing.ts';
import type { Backend, Scope, ServicePortPlan } from '../../../plan/types.ts';
import { AFFINITY_SET_CLIENTS } from '../../capabilities.ts';
import { endpointNames, endpointsMap, servicePortComment } from '../rules/names.ts';
import type { Element, RulesText, SetDeclaration } from '../rules/types.ts';
import { durationText } from './duration.ts';
import { IP, joinRules, type RenderContext } from './match.ts';

export interface RenderedSet {
  readonly name: string;
  readonly rules: RulesText;
  readonly elements: readonly Element[];
  readonly maps: readonly string[];
  readonly endpoints: readonly (readonly [name: string, rules: RulesText])[];
  readonly affinity: readonly (readonly [name: string, declaration: SetDeclaration])[];
}

export function renderSet(
  port: ServicePortPlan,
  scope: Scope,
  name: string,
  context: RenderContext,
): RenderedSet {
  const backends = [...port[scope]];
  if (port.affinityTimeoutSeconds > 0) {
    context.blocks.release(name);
    return withAffinity(port, backends, name, context);
  }
  const none = { name, endpoints: [], affinity: [], maps: [] };
  const choice = choiceOf(port, backends);
  if (choice.isEqual && backends.length > 1) {
    const start = context.blocks.take(name, backends.length);
    const map = endpointsMap(port.protocol, start);
    const offset = start === 0 ? '' : ` offset ${start}`;
    const rules = translation(
      port,
      `${IP[port.family]} to numgen random mod ${backends.length}${offset} map @${map}`,
    );
    const elements = backends.map((backend, index) => ({
      ...{ set: map, key: String(start + index), value: ` : ${targetOf(backend)}` },
    }));
    return { ...none, rules, elements, maps: [map] };
  }
  context.blocks.release(name);
  const [only] = backends;
  const to =
    backends.length === 1 && only !== undefined
      ? `to ${hostPort(only.address, only.port)}`
      : `${IP[port.family]} to ${choice.text('map', backends.map(targetOf))}`;
  return { ...none, rules: translation(port, to), elements: [] };
}

const targetOf = ({ address, port }: Backend): string => `${address} . ${port}`;

const translation = (port: ServicePortPlan, to: string): string =>
  `meta l4proto ${port.protocol.toLowerCase()} dnat ${to} comment "${servicePortComment(port)}"`;

interface Choice {
  readonly isEqual: boolean;
  /** `numgen random mod 3 vmap { 0-1 : goto a, 2 : goto b }` */
  text(kind: 'map' | 'vmap', targets: readonly string[]): string;
}

/** Each backend has as many numbers as its weight, divided by what all weights have in common. */
function choiceOf(port: ServicePortPlan, backends: readonly Backend[]): Choice {
  const weights = backends.map(weightFor(algorithmOf(port)));
  const divisor = weights.reduce(commonDivisor, 0) || 1;
  const parts = weights.map((weight) => weight / divisor);
  return {
    isEqual: parts.every((part) => part === parts[0]),
    text(kind, targets) {
      let from = 0;
      const elements = targets.map((target, index) => {
        const to = from + (parts[index] ?? 1) - 1;
        const key = from === to ? String(from) : `${from}-${to}`;
        from = to + 1;
        return `${key} : ${target}`;
      });
      return `numgen random mod ${from} ${kind} { ${elements.join(', ')} }`;
    },
  };
}

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b));

function withAffinity(
  port: ServicePortPlan,
  backends: readonly Backend[],
  name: string,
  { family }: RenderContext,
): RenderedSet {
  const source = `${IP[family]} saddr`;
  const named = backends.map((backend) => ({ ...backend, ...endpointNames(port, backend) }));
  const timeout = durationText(port.affinityTimeoutSeconds);
  const declaration: SetDeclaration = {
    kind: 'set',
    lines: joinRules([
      family === 'IPv4' ? 'type ipv4_addr' : 'type ipv6_addr',
      `size ${AFFINITY_SET_CLIENTS}`,
      'flags dynamic,timeout',
      `timeout ${timeout}`,
    ]),
    isDynamic: true,
  };
  const targets = named.map(({ chain }) => `goto ${chain}`);
  const [first = ''] = targets;
  const choice = targets.length === 1 ? first : choiceOf(port, backends).text('vmap', targets);
  return {
    name,
    rules: joinRules([
      ...named.map(({ chain, affinity }) => `${source} @${affinity} goto ${chain}`),
      `${choice} comment "${servicePortComment(port)}"`,
    ]),
    elements: [],
    maps: [],
    endpoints: named.map(({ chain, affinity, address, port: number }) => [
      chain,
      joinRules([
        `update @${affinity} { ${source} }`,
        translation(port, `to ${hostPort(address, number)}`),
      ]),
    ]),
    affinity: named.map(({ affinity }) => [affinity, declaration]),
  };
}
