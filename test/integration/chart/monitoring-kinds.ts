// SPDX-License-Identifier: Apache-2.0
// The kinds of the Prometheus operator that the chart has objects of, as far as an API server needs to know them: names, and of
// their fields those that the chart sets.
import { dump } from 'js-yaml';
import { untilHolds } from '../../support/until.ts';
import type { ControlPlane } from '../cluster/control-plane/control-plane.ts';

const GROUP = 'monitoring.coreos.com';
const string = { type: 'string' };
const array = (items: object): object => ({ type: 'array', items });
const object = (properties: object): object => ({ type: 'object', properties });
const map = { type: 'object', additionalProperties: string };

const POD_MONITOR = object({
  selector: object({ matchLabels: map }),
  podMetricsEndpoints: array(
    object({
      interval: string,
      relabelings: array(
        object({
          ...{ sourceLabels: array(string), regex: string, action: string },
          ...{ targetLabel: string, replacement: string },
        }),
      ),
    }),
  ),
});
const RULE = object({ alert: string, expr: string, for: string, labels: map, annotations: map });
const PROMETHEUS_RULE = object({ groups: array(object({ name: string, rules: array(RULE) })) });

const definition = (kind: string, spec: object): object => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `${kind.toLowerCase()}s.${GROUP}` },
  spec: {
    group: GROUP,
    names: { kind, plural: `${kind.toLowerCase()}s` },
    scope: 'Namespaced',
    versions: [
      { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: object({ spec }) } },
    ],
  },
});

export async function installMonitoringKinds(plane: ControlPlane): Promise<void> {
  const kinds = { PodMonitor: POD_MONITOR, PrometheusRule: PROMETHEUS_RULE };
  const text = Object.entries(kinds).map(([kind, spec]) => dump(definition(kind, spec)));
  await plane.kubectl(['apply', '-f', '-'], text.join('---\n'));
  // A kind can be used a moment after it has been defined.
  for (const kind of Object.keys(kinds)) {
    await untilHolds(async () => void (await plane.kubectl(['get', kind, '-A'])), 60_000);
  }
}
