// SPDX-License-Identifier: Apache-2.0
// The rules of iptables and tables of nftables that fairlead has written in this network namespace. Not in dataplanes.ts, because an agent that
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
import {
  listTables,
  removeTables,
  type WrittenTable,
} from '../../engines/nftables/kernel/cleanup.ts';

export const listWrittenRules = (): WrittenRules => withTables(listRules(), listTables());

const withTables = (rules: WrittenRules, tables: readonly WrittenTable[]): WrittenRules => ({
  ...rules,
  parts: [...rules.parts, ...tables.map((one) => ({ ...one, jumps: 0 }))],
});

/** Removes them, unless they are those of another agent that runs. Throws RESTORE_FAILED. */
export const removeWrittenRules = (): WrittenRules =>
  isLockedElsewhere() ? { parts: [], kept: [] } : withTables(removeRules(), removeTables());

/** Nobody else writes rules here until it is closed. Throws IPTABLES_IN_USE. */
export const lockWrittenRules = (runDir: string): Promise<RulesLock> =>
  lockRules({ command: 'cleanup', runDir });
