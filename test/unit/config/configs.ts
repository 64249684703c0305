// SPDX-License-Identifier: Apache-2.0
// Files and calls shared by the tests of the configuration.
import type { FlagValues } from '../../../src/config/flags/flags.ts';
import { resolveConfig } from '../../../src/config/resolve.ts';
import { type Config, diagnosticText } from '../../../src/config/types.ts';
import { FairleadError } from '../../../src/errors.ts';
import { kubeadmConfig } from '../../support/kubeadm/config.ts';

export const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';
export const OWN_HEAD = 'apiVersion: fairlead.io/v1alpha1\nkind: FairleadConfiguration\n';

export const KUBEADM = kubeadmConfig(
  '/var/lib/kube-proxy/kubeconfig.conf',
  '10.244.0.0/16,fd00:10:244::/56',
);

export const fromFile = (text: string, flags: FlagValues = {}): Config =>
  resolveConfig({ file: { path: 'c.yaml', text }, flags, hostname: 'node-a' });

export const fromFlags = (flags: FlagValues): Config =>
  resolveConfig({ flags, hostname: 'node-a' });

/** The problems a call throws, one per line; also checks the exit code of a usage error. */
export function problemsOf(call: () => unknown): readonly string[] {
  try {
    call();
  } catch (error) {
    if (!(error instanceof FairleadError) || error.exitCode !== 2) throw error;
    return error.message.split('\n');
  }
  return [];
}

export const warningsOf = ({ warnings }: Config): readonly string[] => warnings.map(diagnosticText);
