// SPDX-License-Identifier: Apache-2.0
// What fairlead does on a node, by the answers of a probe: which dataplane serves what, and how. Pure.
//   engineOf(results, 'auto') -> { ok: true, sockets: 'bpf', packets: 'nftables', why: ['packet programs: …'] }
import type { ErrorCode } from '../errors.ts';
import { FEATURE_NAMES, FEATURES, type FeatureName, USERSPACE_FEATURES } from './features.ts';
import { type Answer, type Results, resultOf } from './results.ts';
import {
  type ChosenRules,
  chooseRules,
  type RulesEngine,
  type RulesInUse,
  type Works,
} from './rules-choice.ts';

export type Engine = 'auto' | 'bpf' | RulesEngine | 'userspace';
export type ServedBy = Exclude<Engine, 'auto'> | 'nothing';

export interface Served {
  readonly ok: true;
  readonly sockets: ServedBy;
  readonly packets: ServedBy;
  /** Why it is not more: `packet programs: the kernel refused …`. */
  readonly why: readonly string[];
  readonly ways: Ways;
}

/** How the parts work that have several ways; undefined: the part is not used. */
export interface Ways {
  readonly devices: 'tcx links' | 'clsact filters' | Unknown | undefined;
  readonly refusedConnections: 'ECONNREFUSED' | 'EPERM' | Unknown | undefined;
  readonly expiredFlows: 'deleted in the kernel' | 'never deleted' | Unknown | undefined;
  readonly staleSockets: 'bpf_sock_destroy' | 'SOCK_DESTROY' | 'left alone' | Unknown | undefined;
  /** Of Services, where sockets of the agent serve. */
  readonly addresses: 'on the loopback device' | 'ports of 127.0.0.1' | Unknown | undefined;
}

/** What there is to try, in the order in which it is shown. Rules and programs may be refused where sockets need neither. */
export const featuresFor = (asked: Engine): readonly FeatureName[] =>
  asked === 'userspace' ? USERSPACE_FEATURES : FEATURE_NAMES;

type Unknown = 'could not tell';

export interface Refused {
  readonly ok: false;
  readonly code: ErrorCode;
  readonly reason: string;
  /** What would change it. */
  readonly remedy: string;
}

/** In the order of causes: the first that is missing is the reason. */
const BPF_SOCKETS = [
  'CAP_BPF',
  'CAP_NET_ADMIN',
  'CAP_PERFMON',
  'bpf()',
  'BTF',
  'batch operations',
  'mmapable arrays',
  'SK_STORAGE',
  'ring buffer',
  'cgroup v2',
  'cgroup links',
  'socket programs',
] as const satisfies readonly FeatureName[];

const CODES: Readonly<Record<(typeof BPF_SOCKETS)[number], ErrorCode>> = {
  CAP_BPF: 'NO_PRIVILEGE',
  CAP_NET_ADMIN: 'NO_PRIVILEGE',
  CAP_PERFMON: 'NO_PRIVILEGE',
  'bpf()': 'NO_PRIVILEGE',
  BTF: 'NO_BTF',
  'batch operations': 'OLD_KERNEL',
  'mmapable arrays': 'OLD_KERNEL',
  SK_STORAGE: 'OLD_KERNEL',
  'ring buffer': 'OLD_KERNEL',
  'cgroup v2': 'NO_CGROUP2',
  'cgroup links': 'OLD_KERNEL',
  'socket programs': 'PROGRAM_REFUSED',
};

/** Without these rules cannot express a Service at all. */
const RULES = [
  'CAP_NET_ADMIN',
  'nf_conntrack',
  'xt_comment',
  'xt_conntrack',
  'xt_addrtype',
  'xt_mark',
  'xt_statistic',
  'xt_sctp',
  'MASQUERADE',
  'REJECT',
] as const satisfies readonly FeatureName[];

/**
 * With auto what works by eBPF is served by it, and the rest by rules: rules-choice.ts has which. Sockets of the agent
 * serve where neither works. What could not be told counts as working: a start tries it.
 */
export function engineOf(
  results: Results,
  asked: Engine,
  inUse: RulesInUse = {},
): Served | Refused {
  if (asked === 'userspace') return bySockets(results, limitsOfSockets(results));
  const sockets = firstNo(results, BPF_SOCKETS);
  const rules = iptablesProblem(results);
  const tables = nftablesProblem(results);
  if (asked === 'iptables')
    return rules === undefined ? byRules('iptables', []) : { ...NO_IPTABLES, ...rules };
  if (asked === 'nftables')
    return tables === undefined ? byRules('nftables', []) : { ...NO_NFTABLES, ...tables };
  const other = chooseRules(inUse, {
    iptables: rules ?? familiesOf(results, ['ip6tables-nft', 'ip6tables-legacy']),
    nftables: tables ?? familiesOf(results, ['nftables IPv6']),
  });
  if (sockets === undefined) return byBpf(results, asked === 'auto' ? other : undefined);
  const why = textOf(results, sockets);
  const { remedy } = FEATURES[sockets];
  if (asked === 'bpf') return { ok: false, code: CODES[sockets], reason: why, remedy };
  if (other !== undefined) return byRules(other.engine, [why, ...other.why]);
  const reasons = [why, `iptables: ${rules?.reason}`, `nftables: ${tables?.reason}`];
  if (answerOf(results, 'CAP_NET_ADMIN') !== 'no') return bySockets(results, reasons);
  return {
    ...NO_IPTABLES,
    reason: `eBPF: ${reasons.join('; ')}`,
    remedy: `for eBPF: ${remedy}; for iptables: ${rules?.remedy}; for nftables: ${tables?.remedy}; or, without any privilege, --engine userspace`,
  };
}

const familiesOf = (results: Results, ofIpv6: readonly FeatureName[]): Works =>
  ofIpv6.some((name) => answerOf(results, name) !== 'no') ? ['IPv4', 'IPv6'] : ['IPv4'];

function byBpf(results: Results, rules: ChosenRules | undefined): Served {
  const refusedBy = packetsProblem(results);
  return {
    ok: true,
    sockets: 'bpf',
    packets: refusedBy === undefined ? 'bpf' : (rules?.engine ?? 'nothing'),
    why: refusedBy === undefined ? [] : [refusedBy, ...(rules?.why ?? [])],
    ways: waysOf(results, refusedBy === undefined),
  };
}

const waysOf = (results: Results, hasPackets: boolean): Ways => ({
  devices: hasPackets ? either(results, 'tcx', ['tcx links', 'clsact filters']) : undefined,
  refusedConnections: either(results, 'set_retval', ['ECONNREFUSED', 'EPERM']),
  expiredFlows: hasPackets
    ? either(results, 'in-kernel sweep', ['deleted in the kernel', 'never deleted'])
    : undefined,
  staleSockets: either(results, 'bpf_sock_destroy', [
    'bpf_sock_destroy',
    either(results, 'SOCK_DESTROY', ['SOCK_DESTROY', 'left alone']),
  ]),
  addresses: undefined,
});

function either<const With extends string, const Without extends string>(
  results: Results,
  feature: FeatureName,
  [having, lacking]: readonly [With, Without],
): With | Without | Unknown {
  const answer = answerOf(results, feature);
  if (answer === 'yes') return having;
  return answer === 'no' ? lacking : answer;
}

const NO_WAYS: Ways = {
  devices: undefined,
  refusedConnections: undefined,
  expiredFlows: undefined,
  staleSockets: undefined,
  addresses: undefined,
};

const byRules = (engine: RulesEngine, why: readonly string[]): Served => ({
  ok: true,
  sockets: engine,
  packets: engine,
  why,
  ways: NO_WAYS,
});

/** Needs nothing that a node may lack. */
function bySockets(results: Results, why: readonly string[]): Served {
  const addresses = either(results, 'loopback addresses', [
    'on the loopback device',
    'ports of 127.0.0.1',
  ]);
  const ways = { ...NO_WAYS, addresses };
  return { ok: true, sockets: 'userspace', packets: 'userspace', why, ways };
}

/** What makes it serve less, or more slowly. */
const limitsOfSockets = (results: Results): readonly string[] =>
  (['loopback addresses', 'relay thread'] as const)
    .filter((name) => answerOf(results, name) === 'no')
    .map((name) => textOf(results, name));

type Refusal = Pick<Refused, 'reason' | 'remedy'>;

const NO_IPTABLES = { ok: false, code: 'NO_IPTABLES' } as const;
const NO_NFTABLES = { ok: false, code: 'NO_NFTABLES' } as const;

/** undefined: packets can be served by eBPF. */
function packetsProblem(results: Results): string | undefined {
  const refused = firstNo(results, ['softirqs', 'packet programs']);
  const hasHook = ['tcx', 'clsact'].some((name) => answerOf(results, name as FeatureName) !== 'no');
  if (refused !== undefined) return textOf(results, refused);
  return hasHook ? undefined : `${textOf(results, 'tcx')}; ${textOf(results, 'clsact')}`;
}

/** undefined: rules of IPv4 can serve Services. */
function iptablesProblem(results: Results): Refusal | undefined {
  const missing = firstNo(results, RULES);
  if (missing !== undefined) {
    return { reason: textOf(results, missing), remedy: FEATURES[missing].remedy };
  }
  const variants = ['iptables-nft', 'iptables-legacy'] as const;
  if (variants.some((name) => answerOf(results, name) !== 'no')) return undefined;
  const reason = variants.map((name) => textOf(results, name)).join('; ');
  return { reason, remedy: FEATURES['iptables-nft'].remedy };
}

/** undefined: tables of IPv4 can serve Services. */
function nftablesProblem(results: Results): Refusal | undefined {
  const missing = firstNo(results, ['CAP_NET_ADMIN', 'nf_conntrack', 'nftables IPv4']);
  if (missing === undefined) return undefined;
  return { reason: textOf(results, missing), remedy: FEATURES[missing].remedy };
}

const firstNo = <Name extends FeatureName>(
  results: Results,
  names: readonly Name[],
): Name | undefined => names.find((name) => answerOf(results, name) === 'no');

const answerOf = (results: Results, feature: FeatureName): Answer =>
  resultOf(results, feature).answer;

const textOf = (results: Results, feature: FeatureName): string =>
  `${feature}: ${resultOf(results, feature).reason}`;
