// SPDX-License-Identifier: Apache-2.0
// The objects of a large cluster as an API server sends them, managedFields and all, in JSON and in the
// protobuf of k8s.io/api/{core,discovery}/v1/generated.proto. For reflect.bench.mjs.

const SERVICES = 10_000;
const ENDPOINTS = 10;

/** About what a controller's first write leaves: the largest part of a small object. */
function managedFields(/** @type {string} */ manager, /** @type {number} */ fields) {
  const names = Array.from({ length: fields }, (_, index) => [`f:field${index}`, { '.': {} }]);
  return [
    {
      manager,
      operation: 'Update',
      apiVersion: 'v1',
      time: '2026-01-31T08:00:00Z',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'f:metadata': { 'f:labels': Object.fromEntries(names) } },
    },
  ];
}

const uid = (/** @type {number} */ n) =>
  `${String(n).padStart(8, '0')}-1111-4222-8333-444455556666`;

/** @param {number} n */
export function serviceObject(n) {
  const clusterIP = `10.${200 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;
  return {
    metadata: {
      name: `web-${n}`,
      namespace: `ns-${n % 50}`,
      uid: uid(n),
      resourceVersion: String(1_000_000 + n),
      creationTimestamp: '2026-01-31T08:00:00Z',
      labels: { app: `web-${n}`, 'app.kubernetes.io/managed-by': 'Helm' },
      managedFields: managedFields('helm', 12),
    },
    spec: {
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }],
      selector: { app: `web-${n}` },
      clusterIP,
      clusterIPs: [clusterIP],
      type: 'ClusterIP',
      sessionAffinity: 'None',
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
    },
    status: { loadBalancer: {} },
  };
}

/** @param {number} n */
export function sliceObject(n) {
  return {
    metadata: {
      name: `web-${n}-abcde`,
      generateName: `web-${n}-`,
      namespace: `ns-${n % 50}`,
      uid: uid(n),
      resourceVersion: String(2_000_000 + n),
      generation: 3,
      creationTimestamp: '2026-01-31T08:00:00Z',
      labels: {
        app: `web-${n}`,
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
        'kubernetes.io/service-name': `web-${n}`,
      },
      annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-31T08:00:00Z' },
      managedFields: managedFields('kube-controller-manager', 10),
    },
    addressType: 'IPv4',
    endpoints: Array.from({ length: ENDPOINTS }, (_, e) => ({
      addresses: [`10.${(n >> 8) & 127}.${n & 255}.${e + 1}`],
      conditions: { ready: true, serving: true, terminating: false },
      targetRef: {
        kind: 'Pod',
        namespace: `ns-${n % 50}`,
        name: `web-${n}-6d4cf56db6-x${e}yz`,
        uid: uid(n * ENDPOINTS + e),
      },
      nodeName: `node-${(n * 7 + e) % 1000}.example.internal`,
      zone: `region-1${'abc'[e % 3]}`,
    })),
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
  };
}

export const services = () => Array.from({ length: SERVICES }, (_, n) => serviceObject(n));
export const slices = () => Array.from({ length: SERVICES }, (_, n) => sliceObject(n));

/** @param {number} value @returns {number[]} */
function varint(value) {
  const bytes = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  bytes.push(rest);
  return bytes;
}

/** A field with a length: text, bytes, or a message given as its fields. */
function field(
  /** @type {number} */ number,
  /** @type {string | Uint8Array | Uint8Array[]} */ value,
) {
  const bytes =
    typeof value === 'string'
      ? Buffer.from(value)
      : Array.isArray(value)
        ? Buffer.concat(value)
        : value;
  return Buffer.concat([Buffer.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes]);
}

const int = (/** @type {number} */ number, /** @type {number} */ value) =>
  Buffer.from([...varint(number * 8), ...varint(value)]);

const map = (/** @type {number} */ number, /** @type {Record<string, string>} */ entries) =>
  Object.entries(entries).map(([key, value]) => field(number, [field(1, key), field(2, value)]));

const time = (/** @type {number} */ number) => field(number, [int(1, 1_769_846_400)]);

/** @param {any} m */
function metadata(m) {
  return [
    field(1, m.name),
    ...(m.generateName ? [field(2, m.generateName)] : []),
    field(3, m.namespace),
    field(5, m.uid),
    field(6, m.resourceVersion),
    ...(m.generation ? [int(7, m.generation)] : []),
    time(8),
    ...map(11, m.labels),
    ...map(12, m.annotations ?? {}),
    ...m.managedFields.map((/** @type {any} */ entry) =>
      field(17, [
        field(1, entry.manager),
        field(2, entry.operation),
        field(3, entry.apiVersion),
        time(4),
        field(6, entry.fieldsType),
        field(7, [field(1, JSON.stringify(entry.fieldsV1))]),
      ]),
    ),
  ];
}

/** @param {any} object */
export function sliceBytes(object) {
  return Buffer.concat([
    field(1, metadata(object.metadata)),
    ...object.endpoints.map((/** @type {any} */ endpoint) =>
      field(2, [
        field(1, endpoint.addresses[0]),
        field(2, [int(1, 1), int(2, 1), int(3, 0)]),
        field(4, [
          field(1, endpoint.targetRef.kind),
          field(2, endpoint.targetRef.namespace),
          field(3, endpoint.targetRef.name),
          field(4, endpoint.targetRef.uid),
        ]),
        field(6, endpoint.nodeName),
        field(7, endpoint.zone),
      ]),
    ),
    ...object.ports.map((/** @type {any} */ port) =>
      field(3, [field(1, port.name), field(2, port.protocol), int(3, port.port)]),
    ),
    field(4, object.addressType),
  ]);
}

/** @param {any} object */
export function serviceBytes(object) {
  const { spec } = object;
  return Buffer.concat([
    field(1, metadata(object.metadata)),
    field(2, [
      ...spec.ports.map((/** @type {any} */ port) =>
        field(1, [
          field(1, port.name),
          field(2, port.protocol),
          int(3, port.port),
          field(4, [int(1, 0), int(2, port.targetPort)]),
        ]),
      ),
      ...map(2, spec.selector),
      field(3, spec.clusterIP),
      field(4, spec.type),
      field(7, spec.sessionAffinity),
      field(17, spec.ipFamilyPolicy),
      field(18, spec.clusterIPs[0]),
      field(19, spec.ipFamilies[0]),
      field(22, spec.internalTrafficPolicy),
    ]),
    field(3, [field(1, [])]),
  ]);
}

/** The list message inside `k8s\0` + runtime.Unknown, whose type is left out: it is not read. */
export function protobufList(/** @type {Uint8Array[]} */ items, /** @type {string} */ token) {
  const meta = [field(2, '3000000'), ...(token === '' ? [] : [field(3, token)])];
  const list = Buffer.concat([field(1, meta), ...items.map((item) => field(2, item))]);
  return Buffer.concat([Buffer.from('k8s\0'), field(2, list)]);
}

export function jsonList(/** @type {unknown[]} */ items, /** @type {string} */ token) {
  const meta = { resourceVersion: '3000000', ...(token === '' ? {} : { continue: token }) };
  return Buffer.from(JSON.stringify({ kind: 'List', apiVersion: 'v1', metadata: meta, items }));
}
