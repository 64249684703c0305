// SPDX-License-Identifier: Apache-2.0
// How a test knows that the agent has programmed what it has put into the folder of manifests: a Service is put after it, in
// a file of a new name. A listing of the folder that has this file has every change before it, too, and what one listing
// delivers is programmed in one sync, in batches of any order. The next sync begins after the last of them: so one more is put.

import { expect } from 'vitest';
import type { ServiceRow } from '../../../src/observe/service-rows.ts';
import type { Instance } from '../../../tools/lab/agent.ts';
import { svc } from '../builders.ts';
import { askAgent } from '../fixture/proxies/ask-agent.ts';
import { untilHolds } from '../until.ts';

/** Last part of its ClusterIPs, which no Service of a test has. */
const N = 254;
const FIRST_PORT = 20_000;

/** Until when all that was put or removed before the call is programmed. */
export type Programmed = () => Promise<void>;

export function createProgrammed({ manifests, runDir }: Instance): Programmed {
  let turn = 0;
  const nameOf = (n: number): string => `sentinel-${n}`;
  const untilNext = async (): Promise<void> => {
    manifests.remove(`${nameOf(turn)}.yaml`);
    turn += 1;
    const name = nameOf(turn);
    manifests.put(`${name}.yaml`, [svc(name, { n: N, port: FIRST_PORT + turn })]);
    await untilHolds(async () => {
      const rows = (await askAgent(runDir, '/v1/services')) as readonly ServiceRow[];
      const own = rows.filter((row) => row.name === name);
      expect(own.map(({ kernelState }) => kernelState)).toEqual(['ok', 'ok']);
    });
  };
  return async () => {
    await untilNext();
    await untilNext();
  };
}
