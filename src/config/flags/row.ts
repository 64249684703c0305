// SPDX-License-Identifier: Apache-2.0
// What is known of one flag, and how rows of the flag table are written.
import type { Path } from '../types.ts';

export type FlagType =
  | 'text'
  | 'whole'
  | 'number'
  | 'bool'
  | 'duration'
  | 'list'
  | 'switches'
  | 'sizes';

/**
 * With --config, `proxy` flags are ignored (kube-proxy does so too), `always` ones hold all the same;
 * `own` ones are not kube-proxy's and override our document, so that several instances share one file.
 */
export type FlagGroup = 'proxy' | 'always' | 'own';

export interface FlagRow {
  /** Without the dashes. */
  readonly flag: string;
  readonly short?: string;
  readonly type: FlagType;
  readonly group: FlagGroup;
  /** Settings of KubeProxyConfiguration (proxy, always) or FairleadConfiguration (own); none = read by name. */
  readonly paths: readonly Path[];
  readonly help: string;
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
