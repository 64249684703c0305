// SPDX-License-Identifier: Apache-2.0
// API object -> the part of it that a proxy reads. Values are passed on unchecked: judging them is the
// model's work. Never throws, whatever the object is.

import { isRecord, type JsonRecord, recordOrEmpty } from '../../../lib/json.ts';
import { ANNOTATION_ROWS } from '../../../model/annotations.ts';
import { TRIGGER_TIME_ANNOTATION } from '../../../model/labels.ts';
import { OWN_ANNOTATIONS } from '../../../model/node/own-annotations.ts';
import type { Intern } from './intern.ts';

const KEPT_ANNOTATIONS: readonly string[] = [
  TRIGGER_TIME_ANNOTATION,
  ...OWN_ANNOTATIONS,
  ...ANNOTATION_ROWS.map(({ name }) => name),
];

export type Prune = (object: JsonRecord, intern: Intern) => JsonRecord;

/** All of spec: every field of a Service may matter. status.conditions matters to nobody here. */
export const pruneService: Prune = (object, intern) => ({
  metadata: pruneMetadata(object['metadata'], intern),
  spec: object['spec'],
  status: pick(object['status'], ['loadBalancer']),
});

export const pruneSlice: Prune = (object, intern) => ({
  metadata: pruneMetadata(object['metadata'], intern),
  addressType: intern(object['addressType']),
  ports: object['ports'],
  endpoints: pruneEndpoints(object['endpoints'], intern),
});

/** Without conditions and images: a heartbeat then changes nothing. Taints and deletion are for /healthz (KEP-3836). */
export const pruneNode: Prune = (object, intern) => ({
  metadata: pruneMetadata(object['metadata'], intern),
  spec: pick(object['spec'], ['podCIDR', 'podCIDRs', 'taints']),
  status: pick(object['status'], ['addresses']),
});

/** Of 5,000 of them every field counts. */
export const pruneOtherNode: Prune = (object, intern) => ({
  metadata: { ...recordOrEmpty(pruneMetadata(object['metadata'], intern)), labels: undefined },
  status: pick(object['status'], ['addresses']),
});

export const pruneServiceCidr: Prune = (object, intern) => ({
  metadata: pruneMetadata(object['metadata'], intern),
  spec: object['spec'],
});

function pruneMetadata(metadata: unknown, intern: Intern): unknown {
  if (!isRecord(metadata)) return metadata;
  return {
    name: metadata['name'],
    namespace: intern(metadata['namespace']),
    uid: metadata['uid'],
    resourceVersion: metadata['resourceVersion'],
    creationTimestamp: metadata['creationTimestamp'],
    deletionTimestamp: metadata['deletionTimestamp'],
    labels: metadata['labels'],
    annotations: pick(metadata['annotations'], KEPT_ANNOTATIONS),
  };
}

/** Only the named keys that are there; what is no record stays what it is. */
function pick(value: unknown, keys: readonly string[]): unknown {
  if (!isRecord(value)) return value;
  let picked: Record<string, unknown> | undefined;
  for (const key of keys) {
    if (!Object.hasOwn(value, key)) continue;
    picked ??= {};
    picked[key] = value[key];
  }
  return picked;
}

function pruneEndpoints(endpoints: unknown, intern: Intern): unknown {
  if (!Array.isArray(endpoints)) return endpoints;
  return endpoints.map((endpoint: unknown) => pruneEndpoint(endpoint, intern));
}

/** Without targetRef, hostname and deprecatedTopology: about two thirds of the text. */
function pruneEndpoint(endpoint: unknown, intern: Intern): unknown {
  if (!isRecord(endpoint)) return endpoint;
  const { addresses, conditions, nodeName, zone, hints } = endpoint;
  return {
    addresses,
    conditions: sharedConditions(conditions),
    nodeName: intern(nodeName),
    zone: intern(zone),
    hints,
  };
}

/** Two booleans and their absence: a few records serve all endpoints. */
const SHARED: readonly JsonRecord[] = [true, false].flatMap((ready) =>
  [true, false].flatMap((serving) =>
    [true, false].map((terminating) => Object.freeze({ ready, serving, terminating })),
  ),
);

function sharedConditions(conditions: unknown): unknown {
  if (!isRecord(conditions)) return conditions;
  const { ready, serving, terminating } = conditions;
  return (
    SHARED.find(
      (shared) =>
        shared['ready'] === ready &&
        shared['serving'] === serving &&
        shared['terminating'] === terminating,
    ) ?? conditions
  );
}
