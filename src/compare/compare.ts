// SPDX-License-Identifier: Apache-2.0
// Two sides, class by class. Nothing is sampled: a class has every packet that neither side tells from another.
import { resultOf } from '../lib/steps.ts';
import type { Family } from '../model/types.ts';
import { type Answer, answerText, differingPart, type Part, type Reason } from './answer.ts';
import { type Compared, clientClasses, destinations } from './classes.ts';
import type { Claim } from './sides/side.ts';
import type { ClientClass, Destination } from './walk/path.ts';

export interface Difference {
  readonly family: Family;
  readonly destination: Destination;
  /** undefined: no Service is known to have it. */
  readonly claim: Claim | undefined;
  readonly clients: readonly ClientClass[];
  readonly part: Part;
  readonly answers: readonly [Answer, Answer];
  /** The name of a known difference; undefined: there is none. */
  readonly reason?: string | undefined;
}

export interface Comparison {
  readonly destinations: number;
  readonly classes: number;
  /** Those that the judge keeps. */
  readonly differences: readonly Difference[];
  /** How many there are of each reason, kept or not. */
  readonly reasons: ReadonlyMap<string, number>;
  /** Rules of which a test or an action is not known. */
  readonly unread: readonly Reason[];
}

/** What is said of each difference as soon as it is found: of 10,000 known ones, a number may be enough. */
export interface Judge {
  reasonOf(found: Difference): string | undefined;
  isKept(found: Difference): boolean;
}

const KEEP_ALL: Judge = { reasonOf: () => undefined, isKept: () => true };

export const compare = (compared: Compared, judge: Judge = KEEP_ALL): Comparison =>
  resultOf(compareInSteps(compared, judge));

/** A step for each destination. */
export function* compareInSteps(
  compared: Compared,
  judge: Judge = KEEP_ALL,
): Generator<void, Comparison> {
  const differences: Difference[] = [];
  const reasons = new Map<string, number>();
  let [count, classes] = [0, 0];
  for (const destination of destinations(compared)) {
    if (compared.isAsked?.(destination) === false) {
      yield;
      continue;
    }
    count += 1;
    const clients = clientClasses(compared, destination);
    classes += clients.length;
    for (const found of differencesAt(compared, destination, clients)) {
      const reason = judge.reasonOf(found);
      const judged = reason === undefined ? found : { ...found, reason };
      if (reason !== undefined) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      if (judge.isKept(judged)) differences.push(judged);
    }
    yield;
  }
  const unread = compared.sides.flatMap((side) => [...side.unread()]);
  return { destinations: count, classes, differences, reasons, unread };
}

/** Clients with the same two answers are told together. */
function differencesAt(
  { family, sides }: Compared,
  destination: Destination,
  clients: readonly ClientClass[],
): readonly Difference[] {
  const [left, right] = [
    sides[0].answers(destination, clients),
    sides[1].answers(destination, clients),
  ];
  const groups = new Map<string, Difference & { readonly clients: ClientClass[] }>();
  /** Most classes have answers that were compared before, as the same values. */
  const alike = new Map<Answer, Answer>();
  for (const [index, client] of clients.entries()) {
    const [one, other] = [left[index], right[index]];
    if (one === undefined || other === undefined || alike.get(one) === other) continue;
    const part = differingPart(one, other, client.source);
    if (part === undefined) {
      alike.set(one, other);
      continue;
    }
    const key = `${part} ${answerText(one)} | ${answerText(other)}`;
    const known = groups.get(key);
    if (known !== undefined) known.clients.push(client);
    else {
      const claim = sides.map((side) => side.claimAt(destination)).find(isDefined);
      const answers = [one, other] as const;
      groups.set(key, { family, destination, claim, clients: [client], part, answers });
    }
  }
  return [...groups.values()];
}

const isDefined = (claim: Claim | undefined): boolean => claim !== undefined;
