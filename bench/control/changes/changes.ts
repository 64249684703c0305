// SPDX-License-Identifier: Apache-2.0
// The driver's side of changer.ts, and the messages between the two.
import { fileURLToPath } from 'node:url';
import type { ControlPlane } from '../../../test/integration/cluster/control-plane/control-plane.ts';
import { TOKENS } from '../../../test/integration/cluster/control-plane/identities.ts';
import { startChild } from '../proxies/child.ts';

export interface ChurnSpec {
  readonly perSecond: number;
  /** Numbers below this are changed in turn, except the spared ones. */
  readonly services: number;
  readonly spared: readonly number[];
  readonly endpointsEach: number;
}

export type ChangerRequest =
  | ({ readonly op: 'churn' } & ChurnSpec)
  | {
      readonly op: 'put';
      readonly endsChurn: boolean;
      /** Absent: nothing is changed. */
      readonly service?: number;
      readonly addresses: readonly string[];
    };

export interface ChangerReply {
  /** Time when the API server's response had been read. */
  readonly answeredMs?: number;
  readonly sent?: number;
  readonly refused?: number;
  readonly elapsedMs?: number;
}

export interface LastChange {
  readonly service: number;
  readonly addresses: readonly string[];
}

export interface ChurnReport {
  /** Time of the last response. */
  readonly answeredMs: number;
  readonly sent: number;
  readonly refused: number;
  readonly elapsedMs: number;
}

export interface Changer {
  /** Gives a loaded Service other endpoints; resolves with the time of the response. */
  change(service: number, addresses: readonly string[]): Promise<number>;
  startChurn(spec: ChurnSpec): Promise<void>;
  /** With a change that becomes the last of the stream, or without. */
  endChurn(last?: LastChange): Promise<ChurnReport>;
  stop(): Promise<void>;
}

const PROGRAM = fileURLToPath(new URL('changer.js', import.meta.url));

export function startChanger(plane: ControlPlane): Changer {
  const sandbox = plane.sandbox('changer', plane.namespace);
  const { ca } = plane.certificates;
  const argv = [process.execPath, PROGRAM, plane.server.nodeUrl, ca, TOKENS.admin];
  const child = startChild(sandbox, argv);
  const ask = async (request: ChangerRequest): Promise<ChangerReply> => {
    child.writeLine(JSON.stringify(request));
    return JSON.parse(await child.nextLine());
  };
  return {
    change: async (service, addresses) => {
      const { answeredMs } = await ask({ op: 'put', service, addresses, endsChurn: false });
      return answeredMs ?? Number.NaN;
    },
    startChurn: async (spec) => void (await ask({ op: 'churn', ...spec })),
    endChurn: async (last) => {
      const reply = await ask({ op: 'put', endsChurn: true, addresses: [], ...last });
      const { answeredMs = Number.NaN, sent = 0, refused = 0, elapsedMs = 0 } = reply;
      return { answeredMs, sent, refused, elapsedMs };
    },
    stop: () => child.stop(),
  };
}
