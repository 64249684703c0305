// SPDX-License-Identifier: Apache-2.0
// Keeps XDP on the devices that --xdp asks for: each is tried with real frames before anything is forwarded, watched while it
// forwards, and left to tc where it fails, for a while that doubles.
import { reasonOf } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import type { EarlyView } from '../../snapshot.ts';
import { codeOf } from '../errors.ts';
import type { XdpEnd } from './links.ts';
import { createLossWindow, type LossWindow, type XdpTraffic } from './losses.ts';
import type { XdpDecision } from './policy.ts';
import { tryDevice } from './trying.ts';
import type { Trial, XdpKernel } from './xdp-device.ts';

/** A device of the namespace, and what --xdp means for it. */
export interface XdpCandidate extends XdpDecision {
  readonly ifindex: number;
  readonly name: string;
  readonly mac: string | undefined;
  /** It has the programs of tc, to which everything else is left. */
  readonly hasTc: boolean;
  /** Of a bond, by ifindex. */
  readonly ports?: readonly number[];
  /** Of a VLAN: the device below, and the tag. */
  readonly below?: XdpEnd;
}

export interface XdpParts {
  readonly candidates: () => readonly XdpCandidate[];
  readonly kernel: XdpKernel;
  /** Called when `isTarget` of a device has changed. */
  readonly onTargets: () => void;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

export interface XdpFollower {
  /** XDP programs may send to it. */
  isTarget(ifindex: number): boolean;
  /** What comes in by it is translated by XDP: a target, or a VLAN whose frames leave by one. */
  isServed(ifindex: number): boolean;
  /** Devices have changed. */
  refresh(): void;
  /** Once Services are programmed: nothing is tried before. */
  begin(): void;
  /** Before the programs of tc are detached. Fine if XDP is not there. */
  leave(ifindex: number): void;
  view(ifindex: number): EarlyView | undefined;
  /** Detaches what somebody else has broken; returns the names of these devices, where a new trial begins. */
  repair(): readonly string[];
  /** Trials end; XDP stays attached where it is trusted. Idempotent. */
  close(): void;
}

export const createXdpFollower = (parts: XdpParts): XdpFollower => new XdpDevices(parts);

interface Held {
  name: string;
  phase: 'waiting' | 'trial' | 'on' | 'refused';
  reason: string;
  /** The refusal that was logged last. */
  told: string;
  trial?: Trial | undefined;
  /** Of a trial: when it began. Of a refusal: when it ends. */
  atMs: number;
  /** Of the next refusal. */
  delayMs: number;
  losses: LossWindow;
  traffic: XdpTraffic;
}

const TRIAL_TICK_MS = 100;
const TICK_MS = 2000;
const FIRST_DELAY_MS = 60_000;
const MAX_DELAY_MS = 3_600_000;
const NOTHING: XdpTraffic = { sent: 0, lost: 0 };

class XdpDevices implements XdpFollower {
  readonly #parts: XdpParts;
  readonly #held = new Map<number, Held>();
  /** By ifindex, as of the last change: to decide for each that is viewed would take the square of their number. */
  #candidates: ReadonlyMap<number, XdpCandidate> = new Map();
  /** Served by the devices below them. */
  #vlans: ReadonlySet<number> = new Set();
  #hasBegun = false;
  #isLoading = false;
  #refusal: { readonly reason: string; readonly untilMs: number } | undefined;
  #cancelTick: (() => void) | undefined;
  #isClosed = false;

  constructor(parts: XdpParts) {
    this.#parts = parts;
    for (const { ifindex, name } of parts.kernel.adopt()) {
      this.#use(ifindex, this.#hold(ifindex, name), ADOPTED);
    }
  }

  isTarget(ifindex: number): boolean {
    return this.#held.get(ifindex)?.phase === 'on';
  }

  isServed(ifindex: number): boolean {
    return this.isTarget(ifindex) || this.#vlans.has(ifindex);
  }

  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.refresh();
  }

  refresh(): void {
    if (this.#isClosed) return;
    const before = this.#targets();
    const candidates = this.#parts.candidates();
    this.#candidates = new Map(candidates.map((one) => [one.ifindex, one]));
    const wanted = candidates.filter(isUsable);
    const kept = new Set(wanted.map(({ ifindex }) => ifindex));
    for (const [ifindex, held] of this.#held) {
      if (!kept.has(ifindex)) this.#release(ifindex, held);
    }
    for (const candidate of wanted) this.#reconcile(candidate);
    this.#schedule();
    this.#told(before);
  }

  leave(ifindex: number): void {
    const held = this.#held.get(ifindex);
    if (held !== undefined) this.#release(ifindex, held);
  }

  view(ifindex: number): EarlyView | undefined {
    const held = this.#held.get(ifindex);
    if (held !== undefined) {
      const { phase, reason, traffic } = held;
      return { state: phase, reason, sent: traffic.sent, lost: traffic.lost };
    }
    const candidate = this.#candidates.get(ifindex);
    if (candidate === undefined) return undefined;
    const below = this.#belowOf(candidate);
    const { reason } = candidate;
    if (below === undefined) return { state: 'off', reason, ...NOTHING };
    return { state: below.phase, reason: `${reason}: ${below.reason}`, ...NOTHING };
  }

  repair(): readonly string[] {
    const lost = [...this.#held].filter(
      ([ifindex, { phase }]) => phase === 'on' && !this.#parts.kernel.isAttached(ifindex),
    );
    for (const [ifindex, held] of lost) this.#release(ifindex, held);
    if (lost.length > 0) this.refresh();
    return lost.map(([, { name }]) => name);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelTick?.();
    for (const { trial } of this.#held.values()) trial?.end();
  }

  #reconcile(candidate: XdpCandidate): void {
    const { ifindex, name } = candidate;
    const held = this.#hold(ifindex, name);
    if (held.name !== name) {
      held.name = name;
      if (held.phase === 'on') this.#try(held, () => this.#parts.kernel.rename(ifindex, name));
    }
    const isTime = held.phase === 'refused' && this.#now() >= held.atMs;
    if (held.phase === 'waiting' || isTime) this.#begin(candidate, held);
  }

  #begin(candidate: XdpCandidate, held: Held): void {
    const missing = this.#missing(candidate);
    if (missing !== undefined) {
      Object.assign(held, { phase: 'waiting', reason: missing });
      return;
    }
    this.#try(held, () => {
      const { ifindex, name, use, mac, ports = [] } = candidate;
      if ((use !== 'both' && use !== 'send') || mac === undefined) return;
      held.trial = this.#parts.kernel.begin({ ifindex, name, mac, use, ports });
      Object.assign(held, { phase: 'trial', reason: 'it is being tried', atMs: this.#now() });
      this.#continue(ifindex, held);
    });
  }

  /** What a trial waits for. */
  #missing({ mac }: XdpCandidate): string | undefined {
    if (!this.#hasBegun) return 'Services are not programmed yet';
    if (mac === undefined) return 'it has no Ethernet address';
    if (!this.#isLoading && this.#isLoaded()) return undefined;
    return this.#refusal?.reason ?? 'its programs are being loaded';
  }

  /** If not, begins to load. After a refusal not at once again: the verifier takes a tenth of a second. */
  #isLoaded(): boolean {
    if (this.#refusal !== undefined && this.#now() < this.#refusal.untilMs) return false;
    this.#refusal = undefined;
    const load = this.#parts.kernel.load();
    if (load === undefined) return true;
    this.#isLoading = true;
    const refuse = (error: unknown): void => {
      const reason = reasonOf(error);
      this.#refusal = { reason, untilMs: this.#now() + FIRST_DELAY_MS };
      this.#parts.log.warn({ reason }, 'the kernel refuses the XDP programs');
    };
    void load.catch(refuse).finally(() => {
      this.#isLoading = false;
      this.refresh();
    });
    return false;
  }

  /** A step of the trial. */
  #continue(ifindex: number, held: Held): void {
    const { trial } = held;
    if (trial === undefined) return;
    this.#try(held, () => {
      const result = tryDevice(trial, this.#now() - held.atMs);
      if (result.kind === 'going on') held.reason = result.reason;
      else if (result.kind === 'failed') this.#refuse(held, result.reason);
      else this.#trust(ifindex, held, trial);
    });
  }

  #trust(ifindex: number, held: Held, trial: Trial): void {
    trial.trust();
    this.#use(ifindex, held, 'its driver has passed the test');
    this.#parts.log.info({ device: held.name }, 'XDP forwards on a device');
  }

  #use(ifindex: number, held: Held, reason: string): void {
    const traffic = this.#parts.kernel.traffic(ifindex);
    const losses = createLossWindow();
    losses.add(this.#now(), traffic);
    const now = { trial: undefined, atMs: this.#now(), losses, traffic };
    Object.assign(held, { phase: 'on', reason, ...now });
  }

  #refuse(held: Held, reason: string): void {
    held.trial?.end();
    const { delayMs } = held;
    const isNews = held.told !== reason;
    Object.assign(held, { phase: 'refused', reason, told: reason, trial: undefined });
    held.atMs = this.#now() + delayMs;
    held.delayMs = Math.min(2 * delayMs, MAX_DELAY_MS);
    if (!isNews) return;
    const fields = { device: held.name, reason, retrySeconds: delayMs / 1000 };
    this.#parts.log.warn(fields, 'XDP is not used on a device, its packets pass the network stack');
  }

  #release(ifindex: number, held: Held): void {
    held.trial?.end();
    this.#held.delete(ifindex);
    try {
      // Also of a device that was refused: it has been watched.
      this.#parts.kernel.detach(ifindex);
      if (held.phase !== 'on') return;
      this.#parts.log.info({ device: held.name }, 'XDP no longer forwards on a device');
    } catch (error) {
      this.#parts.log.warn({ device: held.name, reason: reasonOf(error) }, 'XDP is not detached');
    }
  }

  #hold(ifindex: number, name: string): Held {
    const held = this.#held.get(ifindex) ?? {
      ...{ name, phase: 'waiting' as const, reason: '', told: '', atMs: 0 },
      ...{ delayMs: FIRST_DELAY_MS, losses: createLossWindow(), traffic: NOTHING },
    };
    this.#held.set(ifindex, held);
    return held;
  }

  #try(held: Held, work: () => void): void {
    try {
      work();
    } catch (error) {
      // The device has gone, and the kernel is about to say so.
      if (codeOf(error) !== 'ENODEV') this.#refuse(held, reasonOf(error));
      else Object.assign(held, { phase: 'waiting', reason: 'it has just gone' });
    }
  }

  #tick(): void {
    const before = this.#targets();
    for (const [ifindex, held] of this.#held) {
      if (held.phase === 'trial') this.#continue(ifindex, held);
      else if (held.phase === 'on') this.#watch(ifindex, held);
    }
    this.refresh();
    this.#told(before);
  }

  #watch(ifindex: number, held: Held): void {
    held.traffic = this.#parts.kernel.traffic(ifindex);
    const reason = held.losses.add(this.#now(), held.traffic);
    if (reason === undefined) {
      // It has been good for as long as the next refusal would be.
      if (this.#now() - held.atMs > held.delayMs) held.delayMs = FIRST_DELAY_MS;
      return;
    }
    this.#try(held, () => this.#parts.kernel.detach(ifindex));
    this.#refuse(held, reason);
  }

  #schedule(): void {
    this.#cancelTick?.();
    const phases = [...this.#held.values()].map(({ phase }) => phase);
    if (phases.length === 0 || this.#isClosed) return;
    const delayMs = phases.includes('trial') ? TRIAL_TICK_MS : TICK_MS;
    this.#cancelTick = this.#parts.clock.after(delayMs, () => this.#tick());
  }

  #targets(): string {
    const targets = [...this.#held.keys()].filter((ifindex) => this.isTarget(ifindex));
    return [...targets, 'with', ...this.#vlans].join();
  }

  #told(before: string): void {
    this.#connect();
    if (this.#targets() !== before) this.#parts.onTargets();
  }

  /** Tells the programs what frames of trusted devices belong to. */
  #connect(): void {
    const candidates = [...this.#candidates.values()];
    const families = candidates
      .filter(({ ifindex, use }) => use === 'both' && this.isTarget(ifindex))
      .map(({ ifindex, ports = [] }) => ({ ifindex, ports, vlans: vlansOf(ifindex, candidates) }));
    this.#vlans = new Set(families.flatMap(({ vlans }) => vlans.map(({ ifindex }) => ifindex)));
    try {
      this.#parts.kernel.setFamilies(families);
    } catch (error) {
      this.#parts.log.warn({ reason: reasonOf(error) }, 'XDP leaves some VLANs to tc');
    }
  }

  #belowOf({ use, below }: XdpCandidate): Held | undefined {
    return use === 'above' && below !== undefined ? this.#held.get(below.ifindex) : undefined;
  }

  #now(): number {
    return this.#parts.clock.monotonicMs();
  }
}

const ADOPTED = 'an earlier agent has tried it';

const isUsable = ({ use, hasTc }: XdpCandidate): boolean =>
  (use === 'both' || use === 'send') && hasTc;

const vlansOf = (ifindex: number, candidates: readonly XdpCandidate[]): readonly XdpEnd[] =>
  candidates.flatMap(({ ifindex: vlan, use, hasTc, below }) =>
    use === 'above' && hasTc && below?.ifindex === ifindex
      ? [{ ifindex: vlan, tag: below.tag }]
      : [],
  );
