// SPDX-License-Identifier: Apache-2.0
// /metrics/slis: the results of this port's /healthz, as every Kubernetes component shows them
// (k8s.io/component-base/metrics/prometheus/slis). Its one check, `ping`, always succeeds.

export interface Slis {
  /** One request to /healthz. */
  checked(): void;
  text(): string;
}

export function createSlis(startedAt: Date): Slis {
  let checks = 0;
  return {
    checked() {
      checks += 1;
    },
    text: () =>
      [
        ...(checks === 0 ? [] : checkLines(checks)),
        '# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in seconds.',
        '# TYPE process_start_time_seconds gauge',
        `process_start_time_seconds ${startedAt.getTime() / 1000}`,
        '',
      ].join('\n'),
  };
}

const checkLines = (checks: number): readonly string[] => [
  '# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.',
  '# TYPE kubernetes_healthcheck gauge',
  'kubernetes_healthcheck{name="ping",type="healthz"} 1',
  '# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.',
  '# TYPE kubernetes_healthchecks_total counter',
  `kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} ${checks}`,
];
