// SPDX-License-Identifier: Apache-2.0
// The words every floor shares: what an object is called, what happened to it, and how we say no.
// Floor 1: imports nothing of ours, knows no clock, no kernel and no Kubernetes client.

export type Family = 'IPv4' | 'IPv6';
export type Protocol = 'TCP' | 'UDP' | 'SCTP';
export type Kind = 'Service' | 'EndpointSlice' | 'Node' | 'ServiceCIDR';

/** Names one API object. `namespace` is '' for cluster-scoped kinds. */
export interface ObjectRef {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
}

/**
 * Bad user input, as a value: which object, which field (a JSON path such as `spec.ports[0].port`),
 * and why, in words a person can act on. A rejection never affects another object.
 */
export interface Rejection {
  readonly object: ObjectRef;
  readonly field: string;
  readonly reason: string;
}

/**
 * One thing that happened to one object at the source. `put` carries the object exactly as the source
 * delivered it (parsed JSON, unchecked): projecting it is the model's work, not the source's.
 */
export type ObjectChange =
  | { readonly type: 'put'; readonly ref: ObjectRef; readonly object: unknown }
  | { readonly type: 'remove'; readonly ref: ObjectRef };
