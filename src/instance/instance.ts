// SPDX-License-Identifier: Apache-2.0
// An instance in this process, from its start to its end: alone, or in place of an agent that runs (a take-over), and until
// a successor takes its place.
import { closeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { FairleadError, reasonOf } from '../errors.ts';
import type { Logger } from '../log.ts';
import { createListenerPool, type ListenerPool } from '../server/http/listener-pool.ts';
import type { Servers } from '../server/servers.ts';
import { packageVersion } from '../sys/package.ts';
import {
  type Composed,
  compose,
  type InstanceSettings,
  type OpenDataplane,
  type SourceProgress,
} from './compose.ts';
import { findRunning, type Running } from './take-over/asking.ts';
import { difference, factsOf, type InstanceFiles, type Refusal } from './take-over/facts.ts';
import { createGiving, type Released } from './take-over/giving.ts';
import type { Successor } from './take-over/protocol.ts';

export interface InstanceOptions {
  /** Files of this instance, if it takes over from an agent that runs; undefined: such an agent is an error. */
  readonly takesOverAs?: (InstanceFiles & { readonly engine: string }) | undefined;
  /**
   * Called before anything is locked: what a stop is to do changes.
   * @param isTakeOver another agent waits for the end of this start, and goes on if it fails
   */
  readonly beforeLocks?: (isTakeOver: boolean) => void;
  /** Called when this agent answers for itself; again if it resumes. */
  readonly onServing?: () => void;
}

/** Throws FairleadError, after closing what it opened; hooks that are attached already stay, as after a stop. */
export async function startInstance(
  settings: InstanceSettings,
  log: Logger,
  options: InstanceOptions = {},
): Promise<Instance> {
  const instance = new Instance(settings, log, options);
  await instance.start();
  return instance;
}

/** A successor that was killed may hold its locks for a moment longer than its connection. */
const RESUME_WITHIN_MS = 10_000;
const RESUME_AGAIN_MS = 100;
/** An agent that has handed over while it loads its programs anew lets go of its pins when that is done. */
const PINS_WITHIN_MS = 60_000;
const LONG_MS = 2 ** 30;
/** A stop takes no longer than a second. */
const ANSWERED_WITHIN_MS = 900;

export class Instance {
  /** Rejects if it cannot go on after a successor was lost. Never resolves. */
  readonly failed: Promise<never>;
  readonly #settings: InstanceSettings;
  readonly #log: Logger;
  readonly #options: InstanceOptions;
  readonly #pool: ListenerPool;
  #closers: { close(): void }[] = [];
  #composed: Composed | undefined;
  #composing: Promise<Composed> | undefined;
  #isServing = false;
  #isHandedOver = false;
  #isStopped = false;
  #waiting: NodeJS.Timeout | undefined;
  #left: Promise<void> = Promise.resolve();
  /** Sockets that serve until a successor does, or until the end. */
  #serving: { close(): void } | undefined;
  /** The agent that this one takes over from. */
  #running: Running | undefined;
  /** What it had. */
  #hasTaken = false;
  /** The lock on --run-dir, while no admin socket has it: between two agents, or two starts of this one. */
  #lock: number | undefined;
  #fail: (error: unknown) => void = () => undefined;

  constructor(settings: InstanceSettings, log: Logger, options: InstanceOptions) {
    this.#settings = settings;
    this.#log = log;
    this.#options = options;
    this.#pool = createListenerPool(log);
    this.failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    this.failed.catch(() => undefined);
  }

  async start(): Promise<void> {
    try {
      await this.#compose(
        async (source) => {
          await this.#takeOver(source);
          this.#options.beforeLocks?.(this.#running !== undefined);
        },
        () => this.#running?.serves(),
      );
    } catch (error) {
      this.#running?.close();
      throw error;
    }
  }

  configWritten: Servers['configWritten'] = (file) => this.#composed?.configWritten(file);

  /** What the kernel has is another agent's: this one may remove nothing. */
  isHandedOver(): boolean {
    return this.#isHandedOver;
  }

  /** Resolves when all whose connections this agent has accepted are answered, or have had time for that; at once if it is alone. */
  async answered(): Promise<void> {
    await Promise.race([this.#left, delay(ANSWERED_WITHIN_MS)]);
  }

  /** undefined: nothing that ends with this agent has connections. Resolves when they have ended, or have had time for that. */
  drain(): Promise<void> | undefined {
    const drained = this.#composed?.dataplane.drain?.();
    return drained && Promise.race([drained, delay(ANSWERED_WITHIN_MS)]);
  }

  /** Closes everything; the programmed state is kept and serves traffic. Idempotent. */
  stop(): void {
    this.#isStopped = true;
    this.#close();
    this.#endServing();
  }

  #endServing(): void {
    this.#serving?.close();
    this.#serving = undefined;
  }

  #close(): void {
    for (const part of this.#closers.splice(0).reverse()) part.close();
  }

  async #compose(
    beforeLocks: (source: SourceProgress) => Promise<void>,
    onServing: () => void,
  ): Promise<void> {
    const closers: { close(): void }[] = [];
    this.#closers = closers;
    try {
      this.#composing = compose(
        { ...this.#settings, openDataplane: this.#openDataplane },
        {
          ...{ closers, pool: this.#pool, beforeLocks, log: this.#log },
          inheritedLock: () => this.#takeLock(),
          onServing: () => void this.#serve(onServing),
        },
      );
      const composed = await this.#composing;
      this.#composed = composed;
      composed.admin.serveConnections(this.#giving(composed));
    } catch (error) {
      this.#close();
      throw error;
    }
  }

  /** First the listeners, then those who wait for them. */
  async #serve(onServing: () => void): Promise<void> {
    await this.#pool.start();
    if (this.#isStopped || this.#isHandedOver) return;
    this.#isServing = true;
    onServing();
    this.#options.onServing?.();
  }

  /** If there is an agent that runs. */
  async #takeOver(source: SourceProgress): Promise<void> {
    const { takesOverAs } = this.#options;
    if (takesOverAs === undefined) return;
    const successor = {
      pid: process.pid,
      version: packageVersion(),
      facts: factsOf(takesOverAs),
      engine: takesOverAs.engine,
    };
    const running = await findRunning(this.#settings.runDir, successor);
    if (running === undefined) return;
    this.#running = running;
    this.#log.info('an agent runs, waiting for complete lists to take over from it');
    await Promise.race([source.lists(), running.gone]);
    const released = await running.take();
    if (released === undefined) return;
    const { lock, listeners } = released;
    this.#lock = lock;
    this.#hasTaken = true;
    this.#pool.inherit(listeners);
    this.#log.info({ listeners: listeners.length }, 'taking over');
  }

  #openDataplane: OpenDataplane = async (network) => {
    const deadline = performance.now() + PINS_WITHIN_MS;
    for (let tries = 0; ; tries += 1) {
      try {
        return await this.#settings.openDataplane(network);
      } catch (error) {
        const mayWait = this.#hasTaken && !this.#isStopped && performance.now() < deadline;
        if (!mayWait || !isHeld(error)) throw error;
        if (tries === 0) this.#log.info('the agent before has not let go of its pins yet, waiting');
        await delay(RESUME_AGAIN_MS);
      }
    }
  };

  #giving(composed: Composed): ReturnType<typeof createGiving> {
    const { bpfRoot, cgroupRoot } = composed.installation;
    const files = { bpfRoot, cgroupRoot };
    return createGiving({
      refusal: ({ facts }) => this.#refusal() ?? difference(factsOf(files), files, facts),
      release: (successor) => this.#release(composed, successor),
      given: () => {
        this.#endServing();
        this.#left = this.#pool.leave();
        const lock = this.#takeLock();
        if (lock !== undefined) closeSync(lock);
      },
      resume: () => void this.#resume(),
      log: this.#log,
    });
  }

  /** The agent before it would resume when it ends. */
  #refusal(): Refusal | undefined {
    if (this.#running === undefined || this.#isServing) return undefined;
    return { code: 'ALREADY_RUNNING', reason: 'it is itself taking over, and does not serve yet' };
  }

  #takeLock(): number | undefined {
    const lock = this.#lock;
    this.#lock = undefined;
    return lock;
  }

  #release({ admin, dataplane }: Composed, { engine }: Successor): Released {
    this.#isHandedOver = true;
    // Without timers and listeners the process would end before it is told to.
    this.#waiting = setInterval(() => undefined, LONG_MS);
    this.#composed?.freeze();
    const listeners = this.#pool.keep();
    const lock = admin.keepLock();
    this.#lock = lock;
    this.#serving = dataplane.serveOn?.(engine === 'userspace' ? 'sockets' : 'kernel');
    this.#close();
    return { lock, listeners };
  }

  /** A start like any other, on the listeners that are still there. */
  async #resume(): Promise<void> {
    const deadline = performance.now() + RESUME_WITHIN_MS;
    this.#endServing();
    while (!this.#isStopped) {
      try {
        await this.#compose(
          async () => undefined,
          () => this.#log.info('resumed'),
        );
        this.#isHandedOver = false;
        clearInterval(this.#waiting);
        return;
      } catch (error) {
        if (!isHeld(error) || performance.now() > deadline) {
          this.#log.error({ reason: reasonOf(error) }, 'cannot resume');
          this.#fail(error);
          return;
        }
        await delay(RESUME_AGAIN_MS);
      }
    }
  }
}

const isHeld = (error: unknown): boolean =>
  error instanceof FairleadError &&
  ['ALREADY_RUNNING', 'BPF_ROOT_IN_USE', 'IPTABLES_IN_USE'].includes(error.code);
