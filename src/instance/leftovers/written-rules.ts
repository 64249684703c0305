// SPDX-License-Identifier: Apache-2.0
// The iptables rules that fairlead has written in this network namespace. Not in dataplanes.ts, because an agent that
// writes none does not load what reads them.
import {
  listRules,
  removeRules,
  type WrittenRules,
} from '../../engines/iptables/kernel/cleanup.ts';
import {
  isLockedElsewhere,
  lockRules,
  type RulesLock,
} from '../../engines/iptables/kernel/instance-lock.ts';

export const listWrittenRules = (): WrittenRules => listRules();

/** Removes them, unless they are those of another agent that runs. Throws RESTORE_FAILED. */
export const removeWrittenRules = (): WrittenRules =>
  isLockedElsewhere() ? { parts: [], kept: [] } : removeRules();

/** Nobody else writes rules here until it is closed. Throws IPTABLES_IN_USE. */
export const lockWrittenRules = (runDir: string): Promise<RulesLock> =>
  lockRules({ command: 'cleanup', runDir });
