// SPDX-License-Identifier: Apache-2.0
// Stories of which the rules are files to review, for each engine that writes rules: each kind of frontend, policy and setting.
import { join } from 'node:path';
import type { Story } from './story.ts';

export const REVIEWED: readonly string[] = [
  'balancing/default-forwarding-a-service-without-forwarding-has-that-of-the-configuration',
  'balancing/weights-backends-have-shares-in-proportion-to-their-weights',
  'clusterip/1-a-pod-reaches-every-endpoint-and-keeps-its-address',
  'clusterip/16-sctp-is-served-like-the-other-protocols',
  'clusterip/detector-interface-in-interface-modes-the-interface-decides-and-a-process-of-the-host-has-none',
  'clusterip/masquerade-all-masqueradeall-masquerades-pods-too-on-the-way-to-a-clusterip',
  'endpoints/57-without-endpoints-a-nodeport-refuses',
  'endpoints/58-without-endpoints-balancer-and-external-addresses-refuse',
  'exposure/deny-node-a-node-that-is-denied-is-denied-from-the-balancer-address-too',
  'exposure/ranges-annotation-a-service-of-any-type-has-source-ranges-by-annotation-at-all-its-external-frontends',
  'policies/102-source-ranges-hold-for-everyone',
  'policies/120-affinity-carries-its-timeout-to-every-frontend-of-the-port',
  'policies/151-a-dual-stack-service-works-in-both-families',
  'policies/63-internal-policy-local-stays-on-the-node-and-keeps-the-address',
  'policies/64-internal-policy-local-without-an-endpoint-here-is-silent',
  'policies/70-a-nodeport-takes-clients-from-outside-masqueraded',
  'policies/84-external-policy-local-without-an-endpoint-here-is-silent',
  'policies/96-an-external-address-is-compared-in-canonical-form',
  'policies/mixed-policies-internal-policy-local-does-not-touch-external-addresses-nor-the-other-way-round',
  'policies/node-port-keywords-keywords-and-prefixes-add-up-and-ipv6-loopback-never-answers',
];

/** `70-a-nodeport-takes-clients-from-outside`. */
const fileName = ({ case: number, name }: Story): string =>
  `${number}-${name.slice(`${number}: `.length)}`
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/-$/, '');

/** `policies/70-a-nodeport-takes-clients-from-outside` */
export const goldenName = (file: string, story: Story): string =>
  join(file.replace('.yaml', ''), fileName(story));
