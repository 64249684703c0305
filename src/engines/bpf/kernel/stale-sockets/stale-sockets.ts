// SPDX-License-Identifier: Apache-2.0
// Sockets that are connected to a backend that is gone. UDP sockets, whose programs would not notice, go on with another
// backend (ADR 44); those that cannot are destroyed, so that their programs connect again, and on request TCP sockets
// (ADR 20). UDP sockets of pods that it may not destroy are refused with their next datagram. Loaded with the first pass, not
// during the start.
import type { Logger } from '../../../../log.ts';
import type { Protocol } from '../../../../model/types.ts';
import { netnsPaths, OWN_NETNS } from '../../../../sys/netns-paths.ts';
import type { StaleSocketsState } from '../../../snapshot.ts';
import { NONE_STALE, type PassParts, runPass } from '../../stale-sockets/pass.ts';
import type { LoadOptions } from '../loader/load.ts';
import { loadMechanism, type Mechanism } from './mechanism.ts';
import { createSchedule } from './schedule.ts';

export interface StaleSockets {
  /** Sockets are to be connected again as soon as their Service has a backend: a pass may help after each sync. */
  isWaiting(): boolean;
  /** Its sockets are looked for, so that passes need not follow what happens to others. */
  concerns(protocol: Protocol): boolean;
  /** Backends of a protocol that it concerns are gone: a pass will run. Returns at once. */
  request(): void;
  state(): StaleSocketsState;
  close(): void;
}

export interface StaleSocketsParts {
  readonly options: LoadOptions;
  readonly resetsTcp: boolean;
  /** As PassParts has it. */
  readonly name: PassParts['name'];
  readonly passesDevices: PassParts['passesDevices'];
  readonly waitGracePeriod: () => Promise<void>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** What the plan that is programmed says of a stale socket. */
export interface StaleSocketJudge {
  readonly isServed: PassParts['isServed'];
  readonly hasService: PassParts['keeping']['hasService'];
}

export function createStaleSockets(
  { options, resetsTcp, name, passesDevices, waitGracePeriod, log }: StaleSocketsParts,
  { isServed, hasService }: StaleSocketJudge,
): StaleSockets {
  let loading: Promise<Mechanism> | undefined;
  let mechanism: Mechanism | undefined;
  let isClosed = false;

  const load = async (): Promise<Mechanism> => {
    loading ??= loadMechanism(options);
    const loaded = await loading;
    if (mechanism === undefined) logLimits(loaded, log);
    mechanism = loaded;
    if (isClosed) loaded.close();
    return loaded;
  };

  const schedule = createSchedule({
    waitGracePeriod,
    log,
    runPass: async () => {
      const { find, way, connectAgain, limits } = await load();
      if (find === undefined || isClosed) return NONE_STALE;
      if ((way ?? name ?? connectAgain) === undefined) return NONE_STALE;
      const destroyIn = way?.destroyIn ?? cannotDestroy(limits[0] ?? '');
      return runPass({
        find: () => find({ resetsTcp }),
        keeping: { hasService, connectAgain },
        ...{ isServed, netnsPaths, ownPath: OWN_NETNS, destroyIn, name, passesDevices },
      });
    },
  });

  return {
    concerns: (protocol) => protocol === 'UDP' || (resetsTcp && protocol === 'TCP'),
    request: schedule.request,
    isWaiting: () => schedule.counts().waiting > 0,
    state: () => ({
      way: mechanism?.way?.name,
      limits: mechanism?.limits ?? [],
      ...schedule.counts(),
    }),
    close() {
      isClosed = true;
      schedule.close();
      mechanism?.close();
    },
  };
}

const cannotDestroy =
  (error: string): PassParts['destroyIn'] =>
  async (_, sockets) =>
    sockets.map(() => ({ error }));

/** Not a warning: privileges may be withheld on purpose. */
function logLimits({ walksBecause, limits }: Mechanism, log: Pick<Logger, 'info'>): void {
  if (walksBecause !== undefined) {
    const text = 'stale sockets are found by walking the sockets of each network namespace';
    log.info({ reason: walksBecause }, text);
  }
  for (const reason of limits) log.info({ reason }, 'not every stale socket can be destroyed');
}
