// SPDX-License-Identifier: Apache-2.0
// The engine that a start begins with: what --engine says, or for auto eBPF unless this process, the kernel or the node
// lacks something that shows at once. What shows only when the programs are loaded is dataplanes.ts's.
import { resolve } from 'node:path';
import type { Config } from '../config/types.ts';
import type { Predecessor } from '../engines/predecessor.ts';
import { fallbackFacts } from '../instance/dataplanes.ts';
import { allEngines } from '../instance/leftovers/engines.ts';
import { userspacePredecessor } from '../instance/leftovers/userspace.ts';
import { checkCapabilities, checkCgroupRoot, checkKernel } from '../instance/preflight/checks.ts';
import { mayFallBack } from '../probe/fallback.ts';
import { holds } from '../probe/forbidden.ts';
import { ownStatus } from '../sys/probe-sandbox.ts';

export interface ChosenEngine {
  readonly engine: 'bpf' | 'iptables' | 'nftables' | 'userspace' | 'shadow';
  /** Why eBPF cannot serve this node; undefined: it can, or was not asked for. */
  readonly reason?: string;
}

/** Throws FairleadError if the engine that was asked for cannot work. */
export function chooseEngine(
  { engine: asked, own }: Pick<Config, 'engine' | 'own'>,
  check: (cgroupRoot: string | undefined) => void = checkBpf,
): ChosenEngine {
  if (own.shadow !== undefined) return { engine: 'shadow' };
  if (asked !== 'auto' && asked !== 'bpf') return { engine: asked };
  try {
    check(own.cgroupRoot === undefined ? undefined : resolve(own.cgroupRoot));
    return { engine: 'bpf' };
  } catch (error) {
    const facts = fallbackFacts(resolve(own.bpfRoot), !own.devices.includes('none'));
    if (asked === 'bpf' || !mayFallBack(error, facts)) throw error;
    return { engine: 'iptables', reason: error.message };
  }
}

function checkBpf(cgroupRoot: string | undefined): void {
  checkCapabilities();
  checkKernel();
  checkCgroupRoot(cgroupRoot);
}

/** None for an agent that could neither see nor remove what another engine has left, or must not. */
export const predecessorsOf = (
  { own, plan: { nodeName } }: Config,
  { engine }: ChosenEngine,
): readonly Predecessor[] =>
  engine === 'shadow' ||
  (engine === 'userspace' && !holds({ status: ownStatus() }, 'CAP_NET_ADMIN'))
    ? []
    : [
        ...allEngines(resolve(own.bpfRoot), {
          ...{ command: 'agent', nodeName, runDir: resolve(own.runDir) },
        }),
        userspacePredecessor(resolve(own.runDir)),
      ];
