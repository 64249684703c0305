// SPDX-License-Identifier: Apache-2.0
// The filters of nf_tables, as `nft -j list ruleset` prints them (libnftables-json(5)), as chains of a question. Chains of
// iptables-nft are left out where iptables-save has printed them: it does that better. Pure.
import { recordOrEmpty } from '../../lib/json.ts';
import {
  type BaseChain,
  type FilterRule,
  type Fit,
  leastFit,
  mostFit,
  opposite,
  type Verdict,
} from './chains.ts';
import type { Question } from './question.ts';

type Json = Readonly<Record<string, unknown>>;

/** The chains that iptables-nft makes and its save prints, in the families ip and ip6: table, hook, priority. */
const OF_IPTABLES = new Set([
  ...['raw prerouting -300', 'mangle prerouting -150'],
  ...['filter forward 0', 'mangle forward -150'],
]);
/** What iptables-nft never writes, and its save leaves out: sets, maps, nft's own matches of tracked connections. */
const FOREIGN = /"(?:set|vmap|map|ct)":|"right":"@/;
/** Tables of kube-proxy, and of fairlead's nftables engine: of no other use to Services. */
export const OF_PROXIES: ReadonlySet<string> = new Set(['kube-proxy', 'fairlead']);
/** The destination of a connection is translated at this priority. */
const DSTNAT = -100;

/** Statements that hold for some packets only. */
const NARROWING = ['limit', 'quota', 'ct count', 'vmap'] as const;

const objectsOf = (ruleset: unknown, what: string): readonly Json[] => {
  const { nftables } = recordOrEmpty(ruleset);
  const all = Array.isArray(nftables) ? nftables : [];
  return all.flatMap((one) => {
    const found = recordOrEmpty(one)[what];
    return found === undefined ? [] : [recordOrEmpty(found)];
  });
};

const keyOf = ({ family, table, name }: Json): string => `${family} ${table} ${name}`;

/**
 * Chains at these hooks that packets of the question's family pass; before the translation of addresses at PREROUTING.
 * @param saved families, `ip` and `ip6`, whose tables of iptables-nft are read already
 */
export function chainsOf(
  ruleset: unknown,
  hook: 'prerouting' | 'forward',
  question: Question,
  saved: ReadonlySet<string> = new Set(),
): readonly BaseChain[] {
  const rules = new Map<string, FilterRule[]>();
  const written = objectsOf(ruleset, 'rule');
  for (const rule of written) {
    const key = `${rule['family']} ${rule['table']} ${rule['chain']}`;
    rules.set(key, [...(rules.get(key) ?? []), filterRule(rule, question)]);
  }
  return objectsOf(ruleset, 'chain')
    .filter((chain) => isFilter(chain, hook) && !isSaved(chain, saved, written))
    .map((chain) => ({
      what: `nftables: chain ${chain['name']} of table ${chain['family']} ${chain['table']}`,
      policy: chain['policy'] === 'drop' ? ('drop' as const) : ('accept' as const),
      rules: rules.get(keyOf(chain)) ?? [],
      chains: inTable(rules, `${chain['family']} ${chain['table']} `),
    }));
}

function inTable(
  rules: ReadonlyMap<string, FilterRule[]>,
  prefix: string,
): ReadonlyMap<string, readonly FilterRule[]> {
  const own = [...rules].filter(([key]) => key.startsWith(prefix));
  return new Map(own.map(([key, all]) => [key.slice(prefix.length), all]));
}

/** A chain that iptables-nft makes. */
export const isOfIptables = ({ family, table, name, hook, prio }: Json): boolean =>
  ['ip', 'ip6'].includes(String(family)) &&
  name === String(hook).toUpperCase() &&
  OF_IPTABLES.has(`${table} ${hook} ${prio}`);

/**
 * Whether iptables-save has printed the chain. A table of its names that somebody else has written it prints empty, or in part.
 * @param saved families that it has printed @param rules of all tables, if they are known
 */
export function isSaved(
  chain: Json,
  saved: ReadonlySet<string>,
  rules: readonly Json[] = [],
): boolean {
  const { family, table } = chain;
  const isOwn = (rule: Json): boolean => rule['family'] === family && rule['table'] === table;
  return (
    saved.has(String(family)) &&
    isOfIptables(chain) &&
    !rules.some((rule) => isOwn(rule) && FOREIGN.test(JSON.stringify(rule['expr'])))
  );
}

/** A chain as nft, or the kernel, describes it: whether it is one of those at a hook that may filter packets of Services. */
export function isFilter(
  { family, table, hook, prio }: Json,
  asked: 'prerouting' | 'forward',
): boolean {
  if (OF_PROXIES.has(String(table))) return false;
  // At a device, of the families netdev and inet: behind the programs of tc.
  if (hook === 'ingress') return asked === 'prerouting';
  if (!['ip', 'ip6', 'inet'].includes(String(family)) || hook !== asked) return false;
  return asked === 'forward' || Number(prio) < DSTNAT;
}

function filterRule(rule: Json, question: Question): FilterRule {
  const expressions = Array.isArray(rule['expr']) ? rule['expr'].map(recordOrEmpty) : [];
  return {
    text: `rule handle ${rule['handle']} of chain ${rule['chain']}${commentOf(rule)}`,
    fit: leastFit(expressions.flatMap((one) => fitsOf(one, question))),
    verdicts: verdictsOf(expressions),
  };
}

const commentOf = ({ comment }: Json): string => (comment === undefined ? '' : ` (${comment})`);

function verdictsOf(expressions: readonly Json[]): readonly Verdict[] {
  const found = expressions.flatMap((one) =>
    one['vmap'] === undefined ? verdictIn(one) : verdictsOfMap(one['vmap']),
  );
  return found.length === 0 ? [{ kind: 'continue' }] : found;
}

function verdictIn(expression: Json): readonly Verdict[] {
  if ('accept' in expression) return [{ kind: 'accept' }];
  if ('drop' in expression || 'reject' in expression) return [{ kind: 'drop' }];
  if ('return' in expression) return [{ kind: 'return' }];
  if (recordOrEmpty(expression['xt'])['name'] === 'REJECT') return [{ kind: 'drop' }];
  for (const kind of ['jump', 'goto'] as const) {
    const target = recordOrEmpty(expression[kind])['target'];
    if (target !== undefined) return [{ kind, chain: String(target) }];
  }
  return [];
}

/** Of an inline map; what a named one leads to is not read: it may be anything. */
function verdictsOfMap(map: unknown): readonly Verdict[] {
  const { set } = recordOrEmpty(recordOrEmpty(map)['data']);
  if (!Array.isArray(set)) return [{ kind: 'continue' }, { kind: 'drop' }];
  return [
    { kind: 'continue' },
    ...set.flatMap((pair) => (Array.isArray(pair) ? verdictIn(recordOrEmpty(pair[1])) : [])),
  ];
}

function fitsOf(expression: Json, question: Question): readonly Fit[] {
  if (NARROWING.some((one) => one in expression)) return ['some'];
  // Of a match of iptables, nft prints the name alone.
  if (recordOrEmpty(expression['xt'])['type'] === 'match') return ['some'];
  if (!('match' in expression)) return [];
  const { op, left, right } = recordOrEmpty(expression['match']);
  const values = valuesOf(right);
  if (values === undefined) return ['some'];
  const fits = values.map((value) => fitOf(recordOrEmpty(left), value, question));
  const ofProtocols = fitOfPayload(recordOrEmpty(left)['payload'], op);
  if (op === '!=') return [ofProtocols, leastFit(fits.map((fit) => opposite(fit)))];
  return [ofProtocols, op === '==' || op === 'in' ? mostFit(fits) : 'some'];
}

/** A field of a header: packets of other protocols do not have it, and match neither its value nor any other. */
function fitOfPayload(payload: unknown, op: unknown): Fit {
  const { protocol } = recordOrEmpty(payload);
  if (payload === undefined) return 'all';
  if (String(protocol).startsWith('icmp')) return 'none';
  return op !== '!=' && /^ip6?$/.test(String(protocol)) ? 'all' : 'some';
}

/** undefined: a named set, or something that is computed. */
function valuesOf(right: unknown): readonly unknown[] | undefined {
  if (typeof right === 'string') return right.startsWith('@') ? undefined : [right];
  if (typeof right === 'number') return [right];
  if (Array.isArray(right)) return right;
  const { set, prefix, range } = recordOrEmpty(right);
  if (Array.isArray(set)) return set;
  return prefix === undefined && range === undefined ? undefined : [right];
}

function fitOf(left: Json, value: unknown, question: Question): Fit {
  const { meta, payload, ct } = left;
  if (meta !== undefined) return fitOfMeta(String(recordOrEmpty(meta)['key']), value, question);
  if (ct !== undefined) return fitOfTracking(String(recordOrEmpty(ct)['key']), value, question);
  if (payload === undefined) return 'some';
  const { field } = recordOrEmpty(payload);
  if (field === 'saddr') return ofAddress(value, question.source);
  if (field === 'daddr') return ofAddress(value, question.destination);
  if (field === 'dport') return ofPorts(value, question);
  if (field === 'protocol' || field === 'nexthdr') return ofProtocol(value);
  return 'some';
}

function fitOfMeta(key: string, value: unknown, question: Question): Fit {
  if (key === 'iifname' || key === 'iif') return question.inInterface(String(value));
  if (key === 'l4proto') return ofProtocol(value);
  return 'some';
}

const ofProtocol = (value: unknown): Fit =>
  /^(?:icmp|ipv6-icmp|icmpv6|igmp|vrrp|esp|ah|1|2|58|112)$/.test(String(value)) ? 'none' : 'some';

function fitOfTracking(key: string, value: unknown, question: Question): Fit {
  if (key === 'state') return String(value).toUpperCase() === question.state ? 'all' : 'none';
  // eBPF leaves no status of netfilter's own translation.
  return key === 'status' ? 'none' : 'some';
}

function ofAddress(value: unknown, ask: (prefix: string) => Fit): Fit {
  if (typeof value === 'string') return ask(`${value}/${value.includes(':') ? 128 : 32}`);
  const { addr, len } = recordOrEmpty(recordOrEmpty(value)['prefix']);
  return typeof addr === 'string' ? ask(`${addr}/${len}`) : 'some';
}

function ofPorts(value: unknown, { destinationPorts }: Question): Fit {
  if (typeof value === 'number') return destinationPorts(value, value);
  const { range } = recordOrEmpty(value);
  if (!Array.isArray(range)) return 'some';
  return destinationPorts(Number(range[0]), Number(range[1]));
}
