// SPDX-License-Identifier: Apache-2.0
// Which kinds a proxy reads, and how their objects say what and who they are.
import { isAbsent, isRecord, type JsonRecord, shown } from '../../lib/json.ts';
import type { Kind, ObjectRef } from '../../model/types.ts';

const KINDS: Readonly<Record<Kind, { readonly apiVersion: string; readonly namespaced: boolean }>> =
  {
    Service: { apiVersion: 'v1', namespaced: true },
    EndpointSlice: { apiVersion: 'discovery.k8s.io/v1', namespaced: true },
    Node: { apiVersion: 'v1', namespaced: false },
    ServiceCIDR: { apiVersion: 'networking.k8s.io/v1', namespaced: false },
  };

/** A document, or an item of a list with what the list says about its items. */
export interface Candidate {
  readonly value: unknown;
  readonly at: string;
  /** Typed lists of the API server do not repeat these in their items. */
  readonly defaults?: { readonly kind: string; readonly apiVersion: unknown };
}

/** The objects of one document; an empty document has none. Lists are taken apart, once. */
export function candidatesOf(document: unknown, index: number): readonly Candidate[] {
  const at = `${index}`;
  if (isAbsent(document)) return [];
  const kind = isRecord(document) ? document['kind'] : undefined;
  if (!isRecord(document) || typeof kind !== 'string' || !kind.endsWith('List')) {
    return [{ value: document, at }];
  }
  const { items } = document;
  if (!Array.isArray(items)) return isAbsent(items) ? [] : [{ value: document, at }];
  const defaults =
    kind === 'List'
      ? {}
      : { defaults: { kind: kind.slice(0, -4), apiVersion: document['apiVersion'] } };
  return items.map((value: unknown, item) => ({ value, at: `${at}.${item}`, ...defaults }));
}

export type Named =
  | { readonly ok: true; readonly ref: ObjectRef; readonly object: JsonRecord }
  /** `isForeign`: of a kind that proxies do not read, and that is a known one. */
  | {
      readonly ok: false;
      readonly field: string;
      readonly reason: string;
      readonly isForeign?: boolean;
    };

/** Kinds that people keep in one file with Services. Any other may be a misspelt Service. */
const FOREIGN = new Set(
  `Binding ConfigMap Endpoints Event LimitRange Namespace PersistentVolume PersistentVolumeClaim Pod PodTemplate
  ReplicationController ResourceQuota Secret ServiceAccount Deployment DaemonSet ReplicaSet StatefulSet ControllerRevision
  Job CronJob HorizontalPodAutoscaler PodDisruptionBudget Ingress IngressClass NetworkPolicy IPAddress Role RoleBinding
  ClusterRole ClusterRoleBinding CustomResourceDefinition APIService StorageClass PriorityClass RuntimeClass Lease
  MutatingWebhookConfiguration ValidatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding`.split(
    /\s+/,
  ),
);

const API_OF_OTHERS = /^[a-z0-9.-]+\.[a-z0-9-]+\/v[a-z0-9]+$/;
/** Groups of the kinds above and of configuration: any other kind in them may be a misspelt one. */
const OWN_APIS =
  /^(discovery\.k8s\.io|networking\.k8s\.io|fairlead\.io|kubeproxy\.config\.k8s\.io)\//;

/** Kinds of the core group are foreign in any other group, as Knative's Service; others may have a misspelt group. */
const isForeign = (kind: unknown, apiVersion: unknown): boolean => {
  if (typeof kind !== 'string') return false;
  if (FOREIGN.has(kind)) return true;
  if (isKind(kind) && KINDS[kind].apiVersion !== 'v1') return false;
  return (
    typeof apiVersion === 'string' && API_OF_OTHERS.test(apiVersion) && !OWN_APIS.test(apiVersion)
  );
};

/** Checks that an object says what and who it is, and fills in what the API server would. */
export function nameObject(candidate: Candidate): Named {
  const refuse = (field: string, reason: string): Named & { readonly ok: false } => ({
    ...{ ok: false, field, reason },
  });
  if (!isRecord(candidate.value)) {
    return refuse('', `must be an API object, not ${shown(candidate.value)}`);
  }
  const whole: JsonRecord = { ...candidate.defaults, ...candidate.value };
  const { kind, apiVersion, metadata } = whole;
  if (kind === undefined) return refuse('', 'kind is missing: is it a Kubernetes object?');
  if (isForeign(kind, apiVersion)) {
    return { ...refuse('kind', foreignText(kind, apiVersion)), isForeign: true };
  }
  if (!isKind(kind)) {
    return refuse('kind', `kind ${shown(kind)} is not supported: use one of ${kindNames()}`);
  }
  const expected = KINDS[kind];
  if (apiVersion !== expected.apiVersion) {
    return refuse(
      'apiVersion',
      `apiVersion must be ${expected.apiVersion} for kind ${kind}, not ${shown(apiVersion)}`,
    );
  }
  if (!isRecord(metadata)) return refuse('metadata', `${kind} without metadata.name`);
  const { name, namespace: given } = metadata;
  if (isAbsent(name) || name === '') return refuse('metadata', `${kind} without metadata.name`);
  if (typeof name !== 'string') {
    return refuse('metadata.name', `metadata.name must be text, not ${shown(name)}: quote it`);
  }
  if (!isAbsent(given) && typeof given !== 'string') {
    return refuse(
      'metadata.namespace',
      `metadata.namespace must be text, not ${shown(given)}: quote it`,
    );
  }
  const namespace = expected.namespaced ? given || 'default' : '';
  const object = expected.namespaced ? { ...whole, metadata: { ...metadata, namespace } } : whole;
  return { ok: true, ref: { kind, namespace, name }, object };
}

/** `Service` alone would read as one that is served. */
const foreignText = (kind: unknown, apiVersion: unknown): string =>
  isKind(kind) ? `${kind} (${String(apiVersion)})` : String(kind);

function isKind(kind: unknown): kind is Kind {
  return typeof kind === 'string' && Object.hasOwn(KINDS, kind);
}

function kindNames(): string {
  return Object.keys(KINDS).join(', ');
}
