// SPDX-License-Identifier: Apache-2.0
// One setting of fairlead: a row of the tables beside this file. The flag and its help, the field of the file and its
// schema, what is written, the warning of an engine that ignores it, and the row of docs/configuration.md follow from it.
import { z } from 'zod';
import type { FlagType } from '../flags/row.ts';
import type { Config } from '../types.ts';

export interface Setting {
  /** Without the dashes. */
  readonly flag: string;
  readonly type: FlagType;
  /** Of the flag, for --help and the manual page. */
  readonly help: string;
  /** Of a value that is given. */
  readonly schema: z.ZodType;
  /** The values it takes, if it is an enumeration. */
  readonly choices?: readonly string[];
  /** Absent: it has none, or one that follows from other settings. */
  readonly default?: unknown;
  /** The setting whose value it takes if none is given. */
  readonly defaultFrom?: string;
  /** The default, for docs/configuration.md: if the value itself does not say it. */
  readonly defaultText?: string;
  /** The meaning, for docs/configuration.md. */
  readonly doc: string;
  /** The fields of a setting that has some: default and meaning of each, for docs/configuration.md. */
  readonly fields?: Readonly<Record<string, readonly [defaultText: string, doc: string]>>;
  /** Why the iptables engine ignores or remaps it, and of which values that need not be said. */
  readonly onIptables?: { readonly reason: string; readonly except?: readonly string[] };
  /** Decides what a Service means: commands that build a plan have its flag, too. */
  readonly isOfPlan?: true;
  /** It is for Services without this annotation: `PlanSettings` has it by its own name, unless it is the default. */
  readonly annotation?: string;
  /** As --write-config-to writes it; undefined = not at all. */
  readonly written: (config: Config) => unknown;
}

export const text = { type: 'string', schema: z.string().min(1) } as const;
export const bool = { type: 'bool', schema: z.boolean() } as const;

/** One of the choices. */
export const choice = <const T extends readonly [string, ...string[]]>(choices: T) => ({
  type: 'string' as const,
  schema: z.enum(choices),
  choices,
});

export const NO_PROGRAMS = 'ignored by the iptables engine: it attaches no programs';
export const ALL_PACKETS = 'ignored by the iptables engine: its rules see every packet of the node';
