// SPDX-License-Identifier: Apache-2.0
// Labels and annotations of Kubernetes that decide what a Service means, each named once.

/** Of a Service that another proxy serves. */
export const SERVICE_PROXY_NAME_LABEL = 'service.kubernetes.io/service-proxy-name';
/** Of a headless Service and its slices. */
export const HEADLESS_LABEL = 'service.kubernetes.io/headless';
/** Of a slice: its Service. */
export const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';
/** Of a Node. */
export const ZONE_LABEL = 'topology.kubernetes.io/zone';
/** Of a Service: how its backends are chosen. */
export const ALGORITHM_ANNOTATION = 'fairlead.io/algorithm';
/** Of a Service: which way requests from outside go to other nodes, and their answers back. */
export const FORWARDING_ANNOTATION = 'fairlead.io/forwarding';
/** Of a Node: its agent takes requests for direct return, as `geneve/1` or, with another port than 6081, `geneve/1:7081`. */
export const DIRECT_RETURN_ANNOTATION = 'fairlead.io/direct-return';
/** Of a Service: the number of entries of its Maglev tables. */
export const TABLE_SIZE_ANNOTATION = 'fairlead.io/table-size';
/** Of a Service: who may reach it, at which of its frontends, and at which nodes. */
export const EXPOSURE_ANNOTATIONS = {
  ranges: 'fairlead.io/source-ranges',
  policy: 'fairlead.io/source-ranges-policy',
  scope: 'fairlead.io/source-ranges-scope',
  kinds: 'fairlead.io/expose',
  nodes: 'fairlead.io/expose-on-nodes',
} as const;
/** Of a slice: the weights of its endpoints. */
export const WEIGHTS_ANNOTATION = 'fairlead.io/weights';
/** Of a slice: when the change behind it happened, for the programming latency metric. */
export const TRIGGER_TIME_ANNOTATION = 'endpoints.kubernetes.io/last-change-trigger-time';
