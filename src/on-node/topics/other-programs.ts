// SPDX-License-Identifier: Apache-2.0
// BPF programs of others on the hooks that fairlead uses, and whether they run before or after ours. Pure.
import { couldNotTell } from '../could-not-tell.ts';
import type { HookProgram, HookPrograms } from '../facts.ts';
import type { Finding } from '../finding.ts';
import { listed } from './listed.ts';

/** All of ours have it. */
const OWN_PREFIX = 'fl_';

/** How programs of others are recognized. */
const OWNERS: readonly (readonly [prefix: string, owner: string])[] = [
  ['cil_', 'Cilium'],
  ['cali', 'Calico'],
  ['sd_', 'systemd'],
];
/** These end the chain with most packets. */
const END_THE_CHAIN = ['Cilium', 'Calico'];

type Order = 'before ours' | 'after ours' | 'without ours';

interface Seen {
  readonly hook: string;
  readonly order: Order;
  readonly program: string;
  readonly owner: string | undefined;
}

/** One for each program, hook and order, with the devices or cgroups where it is so. */
export function otherProgramFindings(hooks: readonly HookPrograms[]): readonly Finding[] {
  const found = new Map<string, { readonly seen: Seen; readonly on: string[] }>();
  for (const hook of hooks) {
    for (const seen of othersOf(hook, hooks)) {
      const key = JSON.stringify(seen);
      const known = found.get(key) ?? { seen, on: [] };
      known.on.push(hook.on);
      found.set(key, known);
    }
  }
  return [...found.values()].map(({ seen, on }) => findingOf(seen, on));
}

function othersOf(
  { hook, on, programs }: HookPrograms,
  all: readonly HookPrograms[],
): readonly Seen[] {
  const before = programsOf(all, on, `tcx ${hook.slice('clsact '.length)}`);
  const after = programsOf(all, on, `clsact ${hook.slice('tcx '.length)}`);
  // The kernel runs the filters of a direction after its tcx programs.
  const [isClsact, isTcx] = [hook.startsWith('clsact '), hook.startsWith('tcx ')];
  const order = [...(isClsact ? before : []), ...programs, ...(isTcx ? after : [])];
  const own = order.findIndex(isOwn);
  return programs
    .filter((program) => program.name !== undefined && !isOwn(program))
    .map((program) => ({
      ...{ hook, order: orderOf(order.indexOf(program), own) },
      ...{ program: nameOf(program), owner: ownerOf(program) },
    }));
}

/** One for all: they may be those of another instance of fairlead, too. */
export function namelessFindings(hooks: readonly HookPrograms[]): readonly Finding[] {
  const nameless = hooks.filter(({ programs }) => programs.some(({ name }) => name === undefined));
  if (nameless.length === 0) return [];
  const where = [...new Set(nameless.map(({ hook, on }) => `${hook} of ${on}`))];
  return [
    couldNotTell(
      'other-programs',
      `programs at ${listed(where)} have names that take CAP_SYS_ADMIN`,
      {
        consequence: 'whether they belong to fairlead, and what they do to Services, is not known',
      },
    ),
  ];
}

const programsOf = (
  all: readonly HookPrograms[],
  on: string,
  hook: string,
): readonly HookProgram[] => all.find((one) => one.on === on && one.hook === hook)?.programs ?? [];

const isOwn = ({ name }: HookProgram): boolean => name?.startsWith(OWN_PREFIX) === true;

const orderOf = (at: number, own: number): Order => {
  if (own < 0) return 'without ours';
  return at < own ? 'before ours' : 'after ours';
};

const nameOf = ({ id, name }: HookProgram): string => name || `program ${id}`;

const ownerOf = ({ name }: HookProgram): string | undefined =>
  OWNERS.find(([prefix]) => name?.startsWith(prefix))?.[1];

function findingOf({ hook, order, program, owner }: Seen, on: readonly string[]): Finding {
  const whose = owner === undefined ? program : `${program} (${owner})`;
  const isFirst = order === 'before ours' && hook.endsWith(' ingress');
  return {
    topic: 'other-programs',
    what: `${hook} of ${listed(on)}: ${whose} runs ${order}`,
    identity: `${hook} ${whose} ${order}`,
    consequence: consequenceOf(hook, order),
    ...(isFirst && { advice: 'restart the agent, which puts its programs first again' }),
    breaksServices: isFirst && owner !== undefined && END_THE_CHAIN.includes(owner),
  };
}

function consequenceOf(hook: string, order: Order): string {
  if (hook === 'XDP')
    return 'it sees packets before Services are served; what it drops or redirects is not served, and --xdp leaves its device alone';
  if (!hook.includes(' '))
    return 'what it refuses fails for Services, too; what it translates first is no Service any more';
  if (order === 'before ours')
    return hook.endsWith(' ingress')
      ? 'what it drops, redirects or ends the chain with is not served by packets; clients of this device may not reach Services'
      : 'it sees what leaves before answers get the address of their Service back';
  if (order === 'after ours')
    return hook.endsWith(' ingress')
      ? 'it sees requests with the address of the endpoint; what it drops is lost'
      : 'it sees answers with the address of the Service';
  return 'none: fairlead has no program at this hook';
}
