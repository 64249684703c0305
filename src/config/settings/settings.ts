// SPDX-License-Identifier: Apache-2.0
// Every setting that fairlead has and kube-proxy has not, by its field of FairleadConfiguration, in the order of
// documents; and what follows from the rows.
import type { z } from 'zod';
import type { PlanSettings } from '../../plan/types.ts';
import { type FlagRow, own } from '../flags/row.ts';
import type { Config } from '../types.ts';
import { AGENT_SETTINGS, LOG_SETTINGS } from './agent.ts';
import { PROGRAM_SETTINGS } from './programs.ts';
import type { Setting } from './row.ts';
import { SERVICE_SETTINGS } from './services.ts';

export const SETTINGS = {
  ...AGENT_SETTINGS,
  ...PROGRAM_SETTINGS,
  ...SERVICE_SETTINGS,
  ...LOG_SETTINGS,
} as const;

type Settings = typeof SETTINGS;
type Values = {
  readonly [K in keyof Settings]?: z.infer<Settings[K]['schema']> | null | undefined;
};

export const ROWS: readonly (readonly [field: string, row: Setting])[] = Object.entries(SETTINGS);

/** The flags that kube-proxy does not have. */
export const FAIRLEAD_FLAGS: readonly FlagRow[] = ROWS.map(
  ([field, { flag, type, help, choices, isOfPlan }]) => ({
    ...own(flag, type, field, help),
    ...(choices && { choices }),
    ...(isOfPlan && { isOfPlan }),
  }),
);

type Fields = {
  readonly [K in keyof Settings]: z.ZodOptional<z.ZodNullable<Settings[K]['schema']>>;
};

/** For the schema of FairleadConfiguration. In Kubernetes' files null means unset. */
export const settingFields = (): Fields =>
  // Its keys and values are those of the table, which Object.fromEntries cannot say.
  Object.fromEntries(ROWS.map(([field, { schema }]) => [field, schema.nullish()])) as Fields;

/** As --write-config-to writes them. */
export const writtenSettings = (config: Config): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    ROWS.flatMap(([field, { written }]) => {
      const value = written(config);
      return value === undefined ? [] : [[field, value]];
    }),
  );

type Defaulting = {
  [K in keyof Settings]: Settings[K] extends { readonly annotation: string } ? K : never;
}[keyof Settings];
type ServiceDefaults = Pick<PlanSettings, Defaulting>;

/** What holds for Services without an annotation, where it is not the default. */
export function serviceDefaults(given: Values): ServiceDefaults {
  const values = new Map<string, unknown>(Object.entries(given));
  const rows = new Map(ROWS);
  const usual = ({ default: fixed, defaultFrom: other = '' }: Setting): unknown =>
    fixed ?? values.get(other) ?? rows.get(other)?.default;
  const chosen = ROWS.filter(([field, row]) => {
    const value = values.get(field) ?? undefined;
    return row.annotation !== undefined && value !== undefined && value !== usual(row);
  });
  // Each has passed the schema of its row.
  return Object.fromEntries(chosen.map(([field]) => [field, values.get(field)])) as ServiceDefaults;
}
