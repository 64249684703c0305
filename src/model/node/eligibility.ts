// SPDX-License-Identifier: Apache-2.0
// May load balancers send traffic to this node? SyncNode and NodeEligible of kube-proxy's
// proxy_health.go, KEP-3836. spec.unschedulable and the exclude-from-external-load-balancers label are
// the service controller's to act on.
import { isAbsent, isRecord, recordOrEmpty } from '../../lib/json.ts';

const TO_BE_DELETED = 'ToBeDeletedByClusterAutoscaler';

/** @param node this node's Node object as the source delivered it; an unknown node is not eligible */
export function isNodeEligible(node: unknown): boolean {
  if (!isRecord(node)) return false;
  if (!isAbsent(recordOrEmpty(node['metadata'])['deletionTimestamp'])) return false;
  const taints = recordOrEmpty(node['spec'])['taints'];
  if (!Array.isArray(taints)) return true;
  return !taints.some((taint) => recordOrEmpty(taint)['key'] === TO_BE_DELETED);
}
