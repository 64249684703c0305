// SPDX-License-Identifier: Apache-2.0
// Follows the rules of other programs on the node, and decides whether eBPF or rules serve packets: before a frontend is
// written, so that no port opens that a firewall closes, and whenever the rules change.
import { reasonOf } from '../../errors.ts';
import type { Clock } from '../../lib/clock.ts';
import { differences } from '../../lib/persistent/map.ts';
import type { Logger } from '../../log.ts';
import type { Problem } from '../../model/problem.ts';
import type { Finding } from '../../on-node/finding.ts';
import {
  findObstacle,
  type HostRules,
  mayFilterArrivals,
  type Obstacle,
  obstacleText,
} from '../../on-node/netfilter/obstacle.ts';
import type { NodeFacts } from '../../on-node/netfilter/question.ts';
import { unreadFindings } from '../../on-node/netfilter/unread.ts';
import type { Plan, ServiceKey } from '../../plan/types.ts';
import { findingOf, problemOf } from './advice.ts';

export interface HostRulesSettings {
  /** Rules may serve packets: --engine is auto, and --devices chooses by kind. */
  readonly mayMove: boolean;
  /** How often rules are read where no mark tells that they have changed, or this instance writes them itself. */
  readonly periodMs: number;
}

export interface HostRulesParts extends HostRulesSettings {
  readonly read: () => Promise<HostRules>;
  /** Equal as long as nothing has changed; undefined: the rules must be read to know. */
  readonly mark: () => string | undefined;
  /** Rules serve packets for this reason, or eBPF again. False: they cannot. */
  readonly move: (reason: string | undefined) => Promise<boolean>;
  /** They have moved between two syncs. */
  readonly moved: () => void;
  readonly plan: () => Plan | undefined;
  readonly localAddresses: () => readonly string[];
  /** The findings have changed. */
  readonly changed: () => void;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

export function followHostRules(parts: HostRulesParts): HostRulesFollower {
  return new HostRulesFollower(parts);
}

const LOOK_MS = 1_000;
/** Where rules could not be written they are retried: first after this, later after twice as long each time. */
const AGAIN_MS = 10_000;
const MAX_AGAIN_MS = 600_000;
/** Where rules change all the time, reading them takes a fiftieth of a processor. */
const REST_AFTER_READING = 50;

const textOf = ({ what, consequence, advice }: Finding): string =>
  [`${what}: ${consequence}`, advice].join('; ');

export class HostRulesFollower {
  readonly #parts: HostRulesParts;
  #mark: string | undefined;
  /** How long the last reading took. */
  #readMs = 0;
  #hasBegun = false;
  readonly #comparison = createComparison();
  /** The frontends of this one were compared. */
  #compared: Plan | undefined;
  #obstacle: Obstacle | undefined;
  /** Of rules that no program has printed. */
  #unread: readonly Finding[] = [];
  #told: string | undefined;
  #failure: string | undefined;
  /** Why rules serve packets; undefined: eBPF does. */
  #byRules: string | undefined;
  /** Why rules were to serve packets, where they could not be written. */
  #stuckFor: string | undefined;
  #againMs = AGAIN_MS;
  #triedMs = 0;
  #moving: Promise<boolean> = Promise.resolve(false);
  #cancel: () => void = () => undefined;
  #isClosed = false;

  constructor(parts: HostRulesParts) {
    this.#parts = parts;
  }

  /** True: packets have moved, because of these Services. */
  async check(plan: Plan): Promise<boolean> {
    if (this.#hasBegun) return this.#compare(plan);
    this.#hasBegun = true;
    const mark = this.#markNow();
    await this.#read(plan);
    this.#mark = mark;
    if (this.#isClosed) return false;
    const hasMoved = await this.#decide();
    this.#lookLater();
    return hasMoved;
  }

  async #compare(plan: Plan): Promise<boolean> {
    await this.#moving;
    if (this.#obstacle !== undefined) return false;
    const compared = this.#compared;
    this.#compared = plan;
    const isRest = compared?.detector === plan.detector;
    const keys = isRest ? differences(compared.services, plan.services) : plan.services.keys();
    const { localAddresses } = this.#parts;
    this.#obstacle = this.#comparison.further(() => factsOf(plan, localAddresses(), keys));
    return this.#obstacle !== undefined && this.#decide();
  }

  problems(): readonly Problem[] {
    return this.#told === undefined ? [] : [{ reason: this.#told, isWarning: true }];
  }

  /** For the section "On this node", its metric and its Event. */
  findings(): readonly Finding[] {
    if (this.#obstacle === undefined) return this.#unread;
    return [findingOf(this.#obstacle, this.#byRules !== undefined), ...this.#unread];
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  async #read(plan: Plan): Promise<void> {
    const { clock } = this.#parts;
    const beganMs = clock.monotonicMs();
    try {
      const rules = await this.#parts.read();
      this.#readMs = clock.monotonicMs() - beganMs;
      this.#compared = this.#parts.plan() ?? plan;
      const facts = factsOf(this.#compared, this.#parts.localAddresses());
      this.#obstacle = this.#comparison.all(rules, facts);
      this.#unread = unreadFindings(rules.unread ?? []);
      this.#failure = undefined;
    } catch (error) {
      // What serves goes on as it is.
      this.#failure = `the packet filters of this node cannot be read: ${reasonOf(error)}`;
    }
  }

  /** True: packets have moved. */
  async #decide(): Promise<boolean> {
    this.#moving = this.#move();
    const hasMoved = await this.#moving;
    this.#tell();
    this.#parts.changed();
    return hasMoved;
  }

  /** The obstacle that stays, because rules cannot serve packets. */
  #stays(): Obstacle | undefined {
    return this.#parts.mayMove && this.#stuckFor === undefined ? undefined : this.#obstacle;
  }

  #tell(): void {
    const stays = this.#stays();
    const known = this.#failure ?? (stays && problemOf(stays));
    const all = [...(known === undefined ? [] : [known]), ...this.#unread.map(textOf)];
    const text = all.length === 0 ? undefined : all.join('. ');
    if (text === this.#told) return;
    this.#told = text;
    if (text === undefined) return;
    const may = known === undefined ? 'may affect' : 'affects';
    this.#parts.log.warn({ reason: text }, `a packet filter of this node ${may} Services`);
  }

  async #move(): Promise<boolean> {
    const { mayMove, move } = this.#parts;
    if (!mayMove || this.#failure !== undefined || this.#isClosed) return false;
    const wanted = this.#obstacle && obstacleText(this.#obstacle);
    const isAsItIs = (wanted === undefined) === (this.#byRules === undefined);
    // What could not be read may be why rules serve packets.
    if (wanted === undefined && this.#unread.length > 0) return false;
    if (isAsItIs || (wanted !== undefined && wanted === this.#stuckFor)) return false;
    const hasMoved = await move(wanted).catch((error: unknown) => {
      this.#parts.log.warn(
        { reason: reasonOf(error) },
        'packets could not move, and are served as before',
      );
      return false;
    });
    this.#stuckFor = hasMoved ? undefined : wanted;
    this.#triedMs = this.#parts.clock.monotonicMs();
    if (hasMoved) {
      this.#byRules = wanted;
      this.#againMs = AGAIN_MS;
    }
    return hasMoved;
  }

  /** What kept rules from being written may be over: another program had them locked, or took long to remove its own. */
  #triesAgain(): boolean {
    const waitedMs = this.#parts.clock.monotonicMs() - this.#triedMs;
    if (this.#stuckFor === undefined || waitedMs < this.#againMs) return false;
    this.#stuckFor = undefined;
    this.#againMs = Math.min(2 * this.#againMs, MAX_AGAIN_MS);
    return true;
  }

  /** A port that a new rule closes stays open until the next look. */
  #lookLater(): void {
    const { clock, periodMs } = this.#parts;
    const isTold = this.#mark !== undefined && this.#byRules === undefined;
    const afterMs = isTold ? Math.max(LOOK_MS, this.#readMs * REST_AFTER_READING) : periodMs;
    this.#cancel = clock.after(afterMs, () => void this.#look());
  }

  /** A rule may name an address that the node gets later. */
  #markNow(): string | undefined {
    const mark = this.#parts.mark();
    return mark && `${mark} ${this.#parts.localAddresses().join()}`;
  }

  async #look(): Promise<void> {
    const mark = this.#markNow();
    const plan = this.#parts.plan();
    const hasChanged = mark === undefined || mark !== this.#mark;
    const isToRead = hasChanged || this.#failure !== undefined || this.#triesAgain();
    if (plan !== undefined && isToRead) {
      await this.#read(plan);
      this.#mark = mark;
      if (await this.#decide()) this.#parts.moved();
    }
    if (!this.#isClosed) this.#lookLater();
  }
}

/** @param localAddresses of the node: a NodePort is at each of them @param keys of these Services alone */
function factsOf(
  plan: Plan,
  localAddresses: readonly string[],
  keys: Iterable<ServiceKey> = plan.services.keys(),
): NodeFacts {
  const frontends = [...keys]
    .flatMap((key) => plan.services.get(key) ?? [])
    .flatMap(({ ports }) => ports)
    .flatMap((port) => port.frontends)
    .filter(({ kind }) => kind !== 'ClusterIP')
    .flatMap(({ address, port }) =>
      (address === undefined ? localAddresses : [address]).map((one) => ({ address: one, port })),
    );
  return { podRanges: podRangesOf(plan), frontends };
}

const podRangesOf = ({ detector, node }: Plan): readonly string[] => [
  ...Object.values(detector).flatMap((one) => (one?.kind === 'cidr' ? [one.cidr] : [])),
  ...node.podCidrs,
];

// Compares the frontends of the plan with the rules of the node, each once: rules that are there before a frontend may close it.
interface Comparison {
  /** With rules that have just been read. */
  readonly all: (rules: HostRules, facts: NodeFacts) => Obstacle | undefined;
  /** With the rules as they were last read: only frontends that they have not been compared with. */
  readonly further: (facts: () => NodeFacts) => Obstacle | undefined;
}

function createComparison(): Comparison {
  /** Undefined: no filter stands before the translation of addresses. */
  let filters: HostRules | undefined;
  const compared = new Set<string>();
  const isNew = (frontend: NodeFacts['frontends'][number]): boolean => {
    const key = `${frontend.address} ${frontend.port}`;
    if (compared.has(key)) return false;
    compared.add(key);
    return true;
  };
  return {
    all: (rules, facts) => {
      filters = mayFilterArrivals(rules) ? rules : undefined;
      compared.clear();
      if (filters !== undefined) facts.frontends.forEach(isNew);
      return findObstacle(rules, facts);
    },
    further: (factsOf) => {
      if (filters === undefined) return undefined;
      const facts = factsOf();
      const frontends = facts.frontends.filter(isNew);
      return frontends.length === 0 ? undefined : findObstacle(filters, { ...facts, frontends });
    },
  };
}
