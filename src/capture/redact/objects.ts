// SPDX-License-Identifier: Apache-2.0
// API objects for others' eyes: what the plan reads, and of that every text that is neither an address nor a word of Kubernetes
// is a name. Fields that are not listed are left out. Pure.
import { isRecord, type JsonRecord, recordOrEmpty } from '../../lib/json.ts';
import { ANNOTATION_ROWS, ANNOTATIONS } from '../../model/annotations.ts';
import {
  HEADLESS_LABEL,
  SERVICE_NAME_LABEL,
  SERVICE_PROXY_NAME_LABEL,
  TRIGGER_TIME_ANNOTATION,
  ZONE_LABEL,
} from '../../model/labels.ts';
import { OWN_ANNOTATIONS } from '../../model/node/own-annotations.ts';
import type { CapturedObject } from '../format.ts';
import type { Names } from './names.ts';
import type { Texts } from './text.ts';

const LABELS: readonly string[] = [
  ...[SERVICE_NAME_LABEL, SERVICE_PROXY_NAME_LABEL, HEADLESS_LABEL, ZONE_LABEL],
];
const ANNOTATION_NAMES: readonly string[] = [
  TRIGGER_TIME_ANNOTATION,
  ...OWN_ANNOTATIONS,
  ...ANNOTATION_ROWS.map(({ name }) => name),
];
/** Of all kinds, at any depth. */
const FIELDS: ReadonlySet<string> = new Set(
  `spec status type clusterIP clusterIPs externalIPs ipFamilies ipFamilyPolicy ports name protocol port nodePort targetPort
  internalTrafficPolicy externalTrafficPolicy sessionAffinity sessionAffinityConfig clientIP timeoutSeconds
  trafficDistribution loadBalancerSourceRanges loadBalancerIP healthCheckNodePort publishNotReadyAddresses loadBalancer
  ingress ip ipMode addressType endpoints addresses conditions ready serving terminating nodeName zone hints forZones
  forNodes podCIDR podCIDRs address cidrs taints key effect`.split(/\s+/),
);
/** Of fields that are a choice. */
export const CHOICES: ReadonlySet<string> = new Set(
  `ClusterIP NodePort LoadBalancer ExternalName ExternalIP None IPv4 IPv6 FQDN SingleStack PreferDualStack
  RequireDualStack TCP UDP SCTP Cluster Local ClientIP PreferClose PreferSameZone PreferSameNode VIP Proxy InternalIP
  Hostname InternalDNS ExternalDNS NoSchedule NoExecute PreferNoSchedule in notin all true false
  ToBeDeletedByClusterAutoscaler`.split(/\s+/),
);
const ANNOTATION_VALUES: ReadonlySet<string> = new Set([
  ...ANNOTATION_ROWS.flatMap(({ values = [] }) => values),
  ...['in', 'notin', 'NodePort', 'ClusterIP', 'LoadBalancer', 'ExternalIP'],
]);

/** What agents write there: a protocol, its version, a port. */
const OWN_TEXT = /^[a-z]+\/\d+(?::\d+)?$/;

export interface Replacing {
  readonly names: Names;
  readonly texts: Texts;
}

export function createObjectRedaction(
  { names, texts }: Replacing,
  objects: readonly CapturedObject[],
): (captured: CapturedObject) => CapturedObject {
  const selected = selectedLabels(objects);
  const name = (value: unknown): unknown =>
    typeof value === 'string' ? names.alias(value) : value;
  const token = (text: string): string => {
    if (/^\d+$/.test(text) || ANNOTATION_VALUES.has(text)) return text;
    return texts.address(text) ?? names.alias(text);
  };
  /** Blanks around it stay: they may be what is wrong. */
  const leaf = (text: string): string =>
    text.replace(/\S(?:.*\S)?/s, (one) =>
      CHOICES.has(one) ? one : (texts.address(one) ?? names.alias(one)),
    );
  const fields = (value: unknown): unknown => {
    if (typeof value === 'string') return leaf(value);
    if (Array.isArray(value)) return value.map(fields);
    if (!isRecord(value)) return value;
    const kept = Object.entries(value).filter(([key]) => FIELDS.has(key));
    const picked = Object.fromEntries(kept.map(([key, one]) => [key, fields(one)]));
    const { selector } = value;
    // Only whether there is one counts.
    const hasSelector = isRecord(selector) && Object.keys(selector).length > 0;
    return { ...picked, ...(hasSelector && { selector: { redacted: 'true' } }) };
  };
  const labels = (value: unknown): unknown =>
    Object.fromEntries(
      Object.entries(recordOrEmpty(value)).flatMap(([key, one]) => {
        if (LABELS.includes(key)) return [[key, name(one)]];
        return selected.has(key) ? [[names.alias(key), name(one)]] : [];
      }),
    );
  const annotations = (value: unknown): unknown =>
    Object.fromEntries(
      Object.entries(recordOrEmpty(value)).flatMap(([key, one]) => {
        if (!ANNOTATION_NAMES.includes(key)) return [];
        if (key === TRIGGER_TIME_ANNOTATION || typeof one !== 'string') return [[key, one]];
        if (OWN_ANNOTATIONS.includes(key) && OWN_TEXT.test(one)) return [[key, one]];
        return [[key, annotationText(one, token)]];
      }),
    );
  return ({ ref, object }) => {
    const whole = recordOrEmpty(object);
    const metadata = recordOrEmpty(whole['metadata']);
    return {
      ref: { ...ref, namespace: names.alias(ref.namespace), name: names.alias(ref.name) },
      object: {
        ...(fields(whole) as JsonRecord),
        metadata: {
          name: name(metadata['name']),
          namespace: name(metadata['namespace']),
          ...pick(metadata, ['resourceVersion', 'creationTimestamp', 'deletionTimestamp']),
          labels: labels(metadata['labels']),
          annotations: annotations(metadata['annotations']),
        },
      },
    };
  };
}

const pick = (record: JsonRecord, keys: readonly string[]): JsonRecord =>
  Object.fromEntries(
    keys.filter((key) => Object.hasOwn(record, key)).map((key) => [key, record[key]]),
  );

/** Addresses with ports and weights, ranges, selectors: what is between separators is replaced. */
function annotationText(text: string, token: (text: string) => string): string {
  return text.replace(/[^\s,=!()[\]]+/g, (word) => {
    const [, address, port] = /^(.*?)(:\d+)$/.exec(word) ?? [];
    if (address !== undefined && !address.includes(':')) return `${token(address)}${port}`;
    return token(word);
  });
}

/** Labels of nodes that some Service selects by. */
function selectedLabels(objects: readonly CapturedObject[]): ReadonlySet<string> {
  const keys = objects.flatMap(({ object }) => {
    const metadata = recordOrEmpty(recordOrEmpty(object)['metadata']);
    const selector = recordOrEmpty(metadata['annotations'])[ANNOTATIONS.nodes.name];
    return typeof selector === 'string' ? (selector.match(/[^\s,=!()]+/g) ?? []) : [];
  });
  return new Set(keys);
}
