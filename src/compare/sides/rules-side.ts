// SPDX-License-Identifier: Apache-2.0
// The answers of rules: every way of every class of clients through them.
import { hostPort } from '../../lib/address-bytes.ts';
import { isLoopback } from '../../lib/ip.ts';
import type { Answer, PossibleBackend, Reason } from '../answer.ts';
import { numberOf } from '../rules/ranges.ts';
import type { Program, Rule } from '../rules/types.ts';
import type { Matching } from '../walk/match.ts';
import { bitOf, type ClientClass, type Destination, type Path, type World } from '../walk/path.ts';
import { reach } from '../walk/reach.ts';
import { trace } from '../walk/trace.ts';
import type { NodeAddresses, Side } from './side.ts';

export function rulesSide(
  { kind, name }: Pick<Side, 'kind' | 'name'>,
  program: Program,
  { own }: NodeAddresses,
): Side {
  const virtual = program.virtualAddresses ?? new Set();
  const local = new Set([...own, ...virtual]);
  const world: World = { isLocal: (address) => isLoopback(address) || local.has(address) };
  const { addresses, ranges, seconds, unread } = program.survey;
  return {
    kind,
    name,
    addresses: () => addresses,
    ranges: () => ranges,
    reach: ({ address, protocol, port }) => reach(program, world, { address, protocol, port }),
    answers: (destination, all) => {
      const classes = virtual.has(destination.address)
        ? all.map((one) => withVirtualSource(one, destination.address))
        : all;
      const asked = { program, world, classes, protocol: destination.protocol, destination };
      return answersOf(trace(asked, destination), { asked, destination, seconds });
    },
    unread: () => unread,
    nodePortAddresses: () => nodePortAddressesIn(program),
    claimAt: () => undefined,
  };
}

/** A process that has chosen no address sends from that of the Service, as it is one of the node's. */
const withVirtualSource = (one: ClientClass, source: string): ClientClass =>
  one.device === undefined ? { ...one, source, at: numberOf(source) } : one;

const nodePortAddressesIn = ({ sets }: Program): readonly string[] =>
  [...sets].flatMap(([name, { exact }]) =>
    name.endsWith(' nodeport-ips') ? [...exact.keys()] : [],
  );

interface Asking {
  readonly asked: Matching;
  readonly destination: Destination;
  readonly seconds: ReadonlyMap<string, number>;
}

/** Classes with the same ways have the same answer, which is made once. */
function answersOf(paths: readonly Path[], asking: Asking): readonly Answer[] {
  const made = new Map<string, Answer>();
  return asking.asked.classes.map((_, index) => {
    const bit = bitOf(index);
    const own: number[] = [];
    for (const [at, { clients }] of paths.entries()) if ((clients & bit) !== 0n) own.push(at);
    const key = own.join();
    const answer =
      made.get(key) ??
      answerOf(
        own.flatMap((at) => paths[at] ?? []),
        bit,
        asking,
      );
    made.set(key, answer);
    return answer;
  });
}

function answerOf(paths: readonly Path[], bit: bigint, asking: Asking): Answer {
  const because = becauseOf(paths);
  const verdicts = new Set(
    paths.map((path) =>
      verdictOf(path, isLoopback(asking.destination.address) && isReceived(bit, asking)),
    ),
  );
  const [verdict = 'none'] = verdicts;
  if (verdicts.size > 1)
    return { verdict: 'mixed', backends: backendsOf(paths), affinitySeconds: 0, because };
  if (verdict !== 'forward') return { verdict, backends: [], affinitySeconds: 0, because };
  const affinitySeconds = affinityOf(paths, bit, asking);
  return { verdict, backends: backendsOf(paths), affinitySeconds, because };
}

/** What comes by a device for a loopback address is dropped before anybody asks for its port (martian). */
const verdictOf = (
  { end, isTranslated }: Path,
  isMartian: boolean,
): Exclude<Answer['verdict'], 'mixed'> => {
  if (isMartian && !isTranslated) return 'drop';
  if (end !== 'accept') return end;
  return isTranslated ? 'forward' : 'none';
};

const isReceived = (bit: bigint, { asked: { classes } }: Asking): boolean =>
  classes.some(({ device }, index) => device !== undefined && (bit & bitOf(index)) !== 0n);

const textOfBackend = (path: Path): string => {
  const verdict = verdictOf(path, false);
  return verdict === 'forward' ? hostPort(path.address, path.port) : verdict;
};

function backendsOf(paths: readonly Path[]): readonly PossibleBackend[] {
  const found = new Map<string, PossibleBackend>();
  for (const path of paths) {
    const text = textOfBackend(path);
    const before = found.get(text);
    const masquerade =
      before === undefined || before.masquerade === path.isMasqueraded
        ? path.isMasqueraded
        : 'mixed';
    found.set(text, { text, share: (before?.share ?? 0) + path.share, masquerade });
  }
  return [...found.values()].sort((a, b) => (a.text < b.text ? -1 : 1));
}

/** A client that is in the list of a backend must get that backend, and nothing else must change. */
function affinityOf(
  paths: readonly Path[],
  bit: bigint,
  { asked, destination, seconds }: Asking,
): number | undefined {
  const times = new Set<number>();
  for (const path of paths) {
    const list = path.remembered?.list;
    const time = list === undefined ? 0 : (seconds.get(list) ?? 0);
    times.add(time);
    if (list === undefined || time === 0) continue;
    const world = { ...asked.world, remembered: list };
    const kept = trace({ ...asked, world }, destination).filter(({ clients }) => clients & bit);
    const isKept = (one: Path): boolean =>
      textOfBackend(one) === textOfBackend(path) &&
      one.isMasqueraded === path.isMasqueraded &&
      one.remembered?.list === list;
    if (!kept.every(isKept)) return undefined;
  }
  const [time = 0] = times;
  return times.size > 1 ? undefined : time;
}

/** The rules of the way of the greatest share, in order. */
function becauseOf(paths: readonly Path[]): readonly Reason[] {
  const lines: Reason[] = [];
  const [first] = paths;
  for (let trail = first?.trail; trail !== undefined; trail = trail.before)
    if (isTelling(trail.rule)) lines.unshift(trail.rule);
  return lines;
}

/** What only leads on says nothing. */
const isTelling = ({ actions, tests }: Rule): boolean =>
  tests.some((test) => test.kind === 'address' && test.side === 'destination') ||
  !actions.every(({ kind }) => kind === 'jump' || kind === 'goto' || kind === 'look-up');
