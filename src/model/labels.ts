// SPDX-License-Identifier: Apache-2.0
// Labels, and annotations that no user writes, which decide what a Service means, each named once. Those that users
// write are rows of annotations.ts.

/** Of a Service that another proxy serves. */
export const SERVICE_PROXY_NAME_LABEL = 'service.kubernetes.io/service-proxy-name';
/** Of a headless Service and its slices. */
export const HEADLESS_LABEL = 'service.kubernetes.io/headless';
/** Of a slice: its Service. */
export const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';
/** Of a Node. */
export const ZONE_LABEL = 'topology.kubernetes.io/zone';
/** Of a slice: when the change behind it happened, for the programming latency metric. */
export const TRIGGER_TIME_ANNOTATION = 'endpoints.kubernetes.io/last-change-trigger-time';
