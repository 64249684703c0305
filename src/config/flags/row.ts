// SPDX-License-Identifier: Apache-2.0
// The description of one flag: a row of the table in kube-proxy.ts, or of a setting of fairlead.
import type { FieldPath } from '../types.ts';

export type FlagType =
  | 'string'
  | 'int'
  | 'float'
  | 'bool'
  | 'duration'
  | 'list'
  | 'boolMap'
  | 'sizeMap';

/**
 * With --config, `proxy` flags are ignored (as in kube-proxy) and `always` flags still apply; `own` flags
 * are fairlead's and override the FairleadConfiguration document, so that several instances share one file.
 */
export type FlagGroup = 'proxy' | 'always' | 'own';

export interface FlagRow {
  /** Without the dashes. */
  readonly flag: string;
  readonly short?: string;
  readonly type: FlagType;
  readonly group: FlagGroup;
  /** Fields of KubeProxyConfiguration (proxy, always) or FairleadConfiguration (own) that the flag sets. */
  readonly paths: readonly FieldPath[];
  readonly help: string;
  /** The values it takes, if it is an enumeration: for completion. */
  readonly choices?: readonly string[];
  /** Decides what a Service means on this node. */
  readonly isOfPlan?: true;
}

const row =
  (group: FlagGroup) =>
  (flag: string, type: FlagType, path: string, help: string): FlagRow => ({
    flag,
    type,
    group,
    paths: path === '' ? [] : path.split(' ').map((one) => one.split('.')),
    help,
  });

export const proxy = row('proxy');
export const always = row('always');
export const own = row('own');
