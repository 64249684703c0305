// SPDX-License-Identifier: Apache-2.0
// FairleadConfiguration: a second document in kube-proxy's file, which kube-proxy never reads, so that
// rolling back is a change of image. Its fields are the rows of src/config/settings.
import { z } from 'zod';
import { parseDuration } from '../duration.ts';
import { tableName } from '../settings/programs.ts';
import { SETTINGS, settingFields } from '../settings/settings.ts';
import type { OwnSettings } from '../types.ts';

export const OWN_API = 'fairlead.io/v1alpha1';
export const OWN_KIND = 'FairleadConfiguration';

export const ownSchema = z.strictObject({
  apiVersion: z.literal(OWN_API),
  kind: z.literal(OWN_KIND),
  ...settingFields(),
});

export type OwnInput = z.infer<typeof ownSchema>;

/** The value of a setting, or its default. */
function settingOf<K extends keyof typeof SETTINGS & keyof OwnInput>(
  input: Partial<OwnInput>,
  field: K,
) {
  const row = SETTINGS[field];
  type Default = (typeof SETTINGS)[K] extends { readonly default: infer D } ? D : undefined;
  return input[field] ?? (('default' in row ? row.default : undefined) as Default);
}

export function ownSettings(input: Partial<OwnInput>): OwnSettings {
  const sizes = Object.entries(input.mapSizes ?? {});
  return {
    isEphemeral: settingOf(input, 'ephemeral'),
    takesOver: settingOf(input, 'takeOver'),
    shadow: settingOf(input, 'shadow')
      ? { waitMs: parseDuration(settingOf(input, 'shadowWait')) ?? 10_000 }
      : undefined,
    switchesAnyway: settingOf(input, 'switchAnyway'),
    readyFile: settingOf(input, 'readyFile'),
    directReturnSecretFile: settingOf(input, 'directReturnSecretFile'),
    cgroupRoot: settingOf(input, 'cgroupRoot'),
    bpfRoot: settingOf(input, 'bpfRoot'),
    runDir: settingOf(input, 'runDir'),
    history: {
      dir: settingOf(input, 'historyDir'),
      maxMiB: settingOf(input, 'historySize'),
    },
    cniConfDir: settingOf(input, 'cniConfDir'),
    mapSizes: Object.fromEntries(
      sizes.flatMap(([field, size]) => (size == null ? [] : [[tableName(field), size]])),
    ),
    devices: settingOf(input, 'devices'),
    hostFirewall: settingOf(input, 'hostFirewall'),
    tcOrder: settingOf(input, 'tcOrder'),
    socketScope: settingOf(input, 'socketScope'),
    xdp: settingOf(input, 'xdp'),
    nftablesOffload: settingOf(input, 'nftablesOffload'),
    protectsNodePorts: settingOf(input, 'nodePortBindProtection'),
    auditIntervalMs: parseDuration(settingOf(input, 'auditInterval')) ?? 600_000,
    resetsTcp: settingOf(input, 'resetTCPConnections'),
    answersPing: settingOf(input, 'answerPing'),
    metricsTopServices: settingOf(input, 'metricsTopServices'),
  };
}
