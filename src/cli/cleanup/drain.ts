// SPDX-License-Identifier: Apache-2.0
// `cleanup --drain`: fairlead ceases to serve, and keeps what connections need.
import type { Predecessor } from '../../engines/predecessor.ts';
import { reasonOf } from '../../errors.ts';
import { allEngines } from '../../instance/leftovers/engines.ts';
import { print } from '../output.ts';
import type { InstancePaths } from '../remove-instance.ts';
import { waitForOtherProxy } from './wait.ts';

/**
 * Ends serving; true if connections need what is left. Throws TIMED_OUT.
 * @param timeoutMs for another proxy to serve; 0: whether there is one or not
 * @param beforeEnd what is to be done once that is known
 */
export async function drain(
  paths: InstancePaths,
  timeoutMs: number,
  beforeEnd: () => Promise<unknown>,
): Promise<boolean> {
  const { bpfRoot, runDir } = paths;
  const predecessors = allEngines(bpfRoot, { command: 'cleanup', runDir });
  return drainAll(predecessors, async (engines) => {
    if (timeoutMs > 0) await waitForOtherProxy({ bpfRoot, engines, timeoutMs });
    await beforeEnd();
  });
}

/** What `drain` would do; true if it would keep what connections need. Changes nothing. */
export async function wouldDrain({ bpfRoot, runDir }: InstancePaths): Promise<boolean> {
  return wouldDrainAll(allEngines(bpfRoot, { command: 'cleanup', runDir }));
}

export async function wouldDrainAll(predecessors: readonly Predecessor[]): Promise<boolean> {
  let isAny = false;
  for (const { engine, look } of predecessors) {
    const { isServing, isLeft, connections } = await look();
    if (!isLeft || connections === 0) continue;
    isAny = true;
    // How many there are is known once it has ceased to serve.
    if (isServing)
      print(`${engine} would begin no connections any more, and keep those that it has`);
    else print(`would keep what ${engine} needs to translate ${connectionsText(connections)}`);
  }
  return isAny;
}

/** @param wait until another proxy serves what these engines do */
export async function drainAll(
  predecessors: readonly Predecessor[],
  wait: (engines: readonly string[]) => Promise<void>,
): Promise<boolean> {
  const engines: string[] = [];
  for (const { engine, look } of predecessors) if ((await look()).isServing) engines.push(engine);
  if (engines.length > 0) await wait(engines);
  let isAny = false;
  for (const predecessor of predecessors) {
    // One that serves only now, or was not seen to, has not been waited for: the next run does.
    if (engines.includes(predecessor.engine)) await endServing(predecessor);
    isAny = (await isNeeded(predecessor)) || isAny;
  }
  return isAny;
}

async function endServing(predecessor: Predecessor): Promise<void> {
  if (!(await predecessor.look()).isServing) return;
  await handAffinity(predecessor);
  await predecessor.stopServing();
  print(`${predecessor.engine} serves no new connections any more`);
}

async function isNeeded({ engine, look, endUnanswered }: Predecessor): Promise<boolean> {
  if ((await look()).isServing) {
    print(`${engine} serves now: run this again`);
    return true;
  }
  await endUnanswered?.();
  const { isLeft, connections } = await look();
  if (!isLeft || connections === 0) return false;
  print(
    `kept what ${engine} needs to translate ${connectionsText(connections)}: run this again when they have ended, or without --drain`,
  );
  return true;
}

/** Without it clients are given endpoints anew: no reason to go on serving. */
async function handAffinity({ engine, handAffinity: hand }: Predecessor): Promise<void> {
  try {
    await hand?.();
  } catch (error) {
    print(`session affinity of ${engine} is not handed over: ${reasonOf(error)}`);
  }
}

const connectionsText = (count: number | undefined): string =>
  count === undefined ? 'some connections' : `${count} connections`;
