// SPDX-License-Identifier: Apache-2.0
// Node object (core/v1) -> Node: addresses in kube-proxy's order of preference (GetNodeHostIPs), the zone
// label, the pod prefixes. Entries that cannot be read are skipped.

import { canonicalAddress, canonicalPrefix } from '../../lib/ip.ts';
import { isAbsent, isRecord, shown } from '../../lib/json.ts';
import { readDirectReturn } from '../direct-return/annotation.ts';
import { labelText, readLabels, readList, readRecord, readString } from '../fields.ts';
import { ZONE_LABEL } from '../labels.ts';
import { collectRejections, type Reject } from '../rejection-collector.ts';
import type { Node, ObjectRef, Projection } from '../types.ts';

/** Never throws, whatever `object` is. */
export function projectNode(ref: ObjectRef, object: unknown): Projection<Node> {
  const { reject, rejections } = collectRejections(ref);
  return { value: readNode(ref, object, reject), rejections };
}

function readNode(ref: ObjectRef, object: unknown, reject: Reject): Node | undefined {
  if (!isRecord(object)) return reject('', `must be an object, not ${shown(object)}`);
  const labels = readLabels(object, reject);
  const zone = Object.hasOwn(labels, ZONE_LABEL) ? labels[ZONE_LABEL] : undefined;
  const spec = readRecord(object['spec'], 'spec', reject);
  const status = readRecord(object['status'], 'status', reject);
  const internal: string[] = [];
  const external: string[] = [];
  for (const [index, entry] of readList(
    status?.['addresses'],
    'status.addresses',
    reject,
  ).entries()) {
    const field = `status.addresses[${index}]`;
    const type = isRecord(entry)
      ? entry['type']
      : reject(field, `must be an object, not ${shown(entry)}`);
    if (type !== 'InternalIP' && type !== 'ExternalIP') continue;
    const text = isRecord(entry) ? entry['address'] : undefined;
    const address = typeof text === 'string' ? canonicalAddress(text) : undefined;
    if (address === undefined)
      reject(`${field}.address`, `must be an IP address, not ${shown(text)}`);
    else if (type === 'InternalIP') internal.push(address);
    else external.push(address);
  }
  const directReturnPort = readDirectReturn(object, reject);
  return {
    name: ref.name,
    zone: readString(zone, `metadata.labels["${ZONE_LABEL}"]`, reject) ?? '',
    addresses: [...new Set([...internal, ...external])],
    podCidrs: readPodCidrs(spec?.['podCIDRs'], spec?.['podCIDR'], reject),
    labels: labelText(labels),
    ...(directReturnPort !== undefined && { directReturnPort }),
  };
}

/** spec.podCIDRs, or the older single spec.podCIDR. */
function readPodCidrs(many: unknown, one: unknown, reject: Reject): readonly string[] {
  const isSingle = isAbsent(many) && !isAbsent(one);
  const list = isSingle ? [one] : readList(many, 'spec.podCIDRs', reject);
  const prefixes: string[] = [];
  for (const [index, text] of list.entries()) {
    const field = isSingle ? 'spec.podCIDR' : `spec.podCIDRs[${index}]`;
    const prefix = typeof text === 'string' ? canonicalPrefix(text) : undefined;
    if (prefix === undefined)
      reject(field, `must be a prefix such as 10.1.0.0/24, not ${shown(text)}`);
    else prefixes.push(prefix);
  }
  return prefixes;
}
