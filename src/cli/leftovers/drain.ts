// SPDX-License-Identifier: Apache-2.0
// `cleanup --drain`: fairlead ceases to serve, and keeps what connections need.
import type { Predecessor } from '../../dataplane/predecessor.ts';
import { reasonOf } from '../../errors.ts';
import { print } from '../output.ts';
import type { InstancePaths } from '../remove-instance.ts';
import { allEngines } from './engines.ts';
import { waitForOtherProxy } from './wait.ts';

/**
 * Ends serving; true if connections need what is left. Throws TIMED_OUT.
 * @param timeoutMs for another proxy to serve; 0: whether there is one or not
 */
export async function drain(
  { bpfRoot, runDir }: InstancePaths,
  timeoutMs: number,
): Promise<boolean> {
  const predecessors = allEngines(bpfRoot, { command: 'cleanup', runDir });
  if (timeoutMs > 0) await waitIfServing(predecessors, { bpfRoot, timeoutMs });
  let isAny = false;
  for (const predecessor of predecessors) {
    if ((await predecessor.look()).isServing) {
      await handAffinity(predecessor);
      await predecessor.stopServing();
      print(`${predecessor.engine} serves no new connections any more`);
    }
    await predecessor.endUnanswered?.();
    const { isLeft, connections } = await predecessor.look();
    if (!isLeft || connections === 0) continue;
    isAny = true;
    const count = connections === undefined ? 'some connections' : `${connections} connections`;
    print(
      `kept what ${predecessor.engine} needs to translate ${count}: run this again when they have ended, or without --drain`,
    );
  }
  return isAny;
}

async function waitIfServing(
  predecessors: readonly Predecessor[],
  options: { readonly bpfRoot: string; readonly timeoutMs: number },
): Promise<void> {
  const engines: string[] = [];
  for (const { engine, look } of predecessors) if ((await look()).isServing) engines.push(engine);
  if (engines.length > 0) await waitForOtherProxy({ ...options, engines });
}

/** Without it clients are given endpoints anew: no reason to go on serving. */
async function handAffinity({ engine, handAffinity: hand }: Predecessor): Promise<void> {
  try {
    await hand?.();
  } catch (error) {
    print(`session affinity of ${engine} is not handed over: ${reasonOf(error)}`);
  }
}
