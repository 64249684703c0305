// SPDX-License-Identifier: Apache-2.0
// What an agent answers, from a capture: commands ask the one or the other by the same routes, and print the same.
import type { Command } from 'commander';
import { type Capture, planIn } from '../../capture/format.ts';
import { FairleadError, reasonOf } from '../../errors.ts';
import { backendRows } from '../../observe/backend-rows.ts';
import { explained } from '../../observe/explained.ts';
import { serviceRows } from '../../observe/service-rows.ts';
import { askAgent } from '../../server/admin-socket.ts';
import { readCapture, unfit } from './file.ts';

/** Throws as askAgent does. */
export type Ask = (route: string, timeoutMs?: number) => Promise<unknown>;

export interface AskedOf {
  readonly runDir: string;
  readonly capture?: string;
}

export const addCaptureOption = (command: Command): Command =>
  command.option(
    '--capture <file>',
    'answer from a file of `fairlead capture`, of any node: needs no agent and no privilege',
  );

/** The agent of --run-dir, or with --capture that file, which is read once. Throws BAD_OPTION. */
export function askOf({ runDir, capture: path }: AskedOf): Ask {
  if (path === undefined)
    return (route, timeoutMs) => askAgent(runDir, route, ...(timeoutMs ? [timeoutMs] : []));
  const capture = readCapture(path);
  return async (route) => {
    const { pathname, searchParams } = new URL(route, 'http://capture');
    try {
      return await answerOf(capture, pathname, searchParams);
    } catch (error) {
      if (error instanceof FairleadError) throw error;
      throw unfit(path, `it was changed (${reasonOf(error)})`);
    }
  };
}

async function answerOf(capture: Capture, route: string, query: URLSearchParams): Promise<unknown> {
  const plan = planIn(capture);
  const { dataplanes = [], programmed } = capture;
  switch (route) {
    case '/v1/status':
      return capture.status ?? lacks(capture, 'status');
    case '/v1/services':
      return serviceRows(plan, read(capture).frontends, plan === undefined ? [] : dataplanes);
    case '/v1/backends':
      return backendRows(plan, read(capture).backends);
    case '/v1/explain': {
      if (plan === undefined) lacks(capture, 'plan');
      const held = programmed?.frontends.map(({ dataplane, id, port }) => {
        return { dataplane, id, service: `${port.namespace}/${port.name}` };
      });
      const serving = { dataplanes, ...(held && { held }) };
      return explained(plan, capture.addresses, serving, query, capture.findings);
    }
    default:
      throw new Error(`no route ${route}`);
  }
}

const read = (capture: Capture): NonNullable<Capture['programmed']> =>
  capture.programmed ?? lacks(capture, 'programmed');

function lacks({ unread }: Capture, what: string): never {
  const reason = unread.find((one) => one.what === what)?.reason ?? 'it was not there';
  throw new FairleadError('NOT_FOUND', `the capture has no ${what}: ${reason}`);
}
