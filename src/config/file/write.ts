// SPDX-License-Identifier: Apache-2.0
// A Config as text. kube-proxy itself would start with the first document; ours follows, and kube-proxy
// does not read it.
import { sortedYaml } from '../../lib/yaml/write.ts';
import { writtenSettings } from '../settings/settings.ts';
import type { Config } from '../types.ts';
import { OWN_API, OWN_KIND } from './fairlead-schema.ts';

/** --write-config-to: both documents with every default, keys sorted as kube-proxy sorts them. */
export function configText(config: Config): string {
  return `${sortedYaml(config.document)}---\n${sortedYaml(ownDocument(config))}`;
}

const ownDocument = (config: Config): Readonly<Record<string, unknown>> => ({
  apiVersion: OWN_API,
  kind: OWN_KIND,
  ...writtenSettings(config),
});

/** /configz: the versioned form under kube-proxy's key, as since Kubernetes 1.36; ours beside it. */
export function configz(config: Config): Readonly<Record<string, unknown>> {
  const { document } = config;
  const buffer = { infoBufferSize: '0' };
  return {
    'kubeproxy.config.k8s.io': {
      ...document,
      logging: { options: { text: buffer, json: buffer }, ...document.logging },
      winkernel: WINDOWS,
    },
    'fairlead.io': ownDocument(config),
  };
}

/** Shown, because kube-proxy shows it on every platform; a file that sets any of it is rejected. */
const WINDOWS = {
  networkName: '',
  sourceVip: '',
  enableDSR: false,
  rootHnsEndpointName: '',
  forwardHealthCheckVip: false,
};
