// SPDX-License-Identifier: Apache-2.0
// The flowtable of this network namespace, where it is asked for and the kernel has one. Where neither is so, one that an
// earlier agent has left is removed.
import type { Logger } from '../../../log.ts';
import { SYSTEM_CLOCK } from '../../../sys/clock.ts';
import { run } from '../../../sys/exec.ts';
import { followNetwork } from '../../../sys/netlink/follow.ts';
import type { Capabilities } from '../../capabilities.ts';
import { NO_OFFLOAD } from '../offload/choose.ts';
import { followOffload } from '../offload/follower.ts';
import { removal, textOf, trial } from '../offload/script.ts';
import { failureOf } from '../state/failure.ts';
import { hasOffload } from './cleanup.ts';
import type { RunProgram } from './nft.ts';

export interface OpenOffload {
  /** undefined: nobody has asked for it. */
  readonly state: Capabilities['offload'];
  transactions(): number;
  close(): void;
}

/** Why there can be no flowtable; undefined: there can. */
export async function offloadProblem(runProgram: RunProgram = run): Promise<string | undefined> {
  const script = trial();
  const result = await runProgram('nft', ['--check', '-f', '-'], { stdin: script });
  return result.code === 0 ? undefined : failureOf(script, result).reason;
}

/** Throws nothing: Services are served without it, too. */
export async function openOffload(
  patterns: readonly string[],
  periodMs: number,
  log: Logger,
): Promise<OpenOffload> {
  const isAsked = !patterns.includes(NO_OFFLOAD);
  const reason = isAsked ? await offloadProblem() : undefined;
  if (isAsked && reason === undefined) return follow(patterns, periodMs, log);
  if (reason !== undefined) log.warn({ reason }, 'connections are not offloaded to a flowtable');
  const left = hasOffload() ? await write(textOf(removal())) : undefined;
  if (left !== undefined) log.warn({ reason: left }, 'a flowtable is left');
  return {
    state: isAsked ? { reason } : undefined,
    transactions: () => 0,
    close: () => undefined,
  };
}

function follow(patterns: readonly string[], periodMs: number, log: Logger): OpenOffload {
  const network = followNetwork();
  const offload = followOffload({
    ...{ network, patterns, write, isThere: hasOffload, periodMs, clock: SYSTEM_CLOCK, log },
  });
  return {
    state: {},
    transactions: () => offload.transactions(),
    close: () => {
      offload.close();
      network.close();
    },
  };
}

async function write(script: string): Promise<string | undefined> {
  const options = { stdin: script, endsWithUs: true } as const;
  const result = await run('nft', ['-f', '-'], options);
  return result.code === 0 ? undefined : failureOf(script, result).reason;
}
