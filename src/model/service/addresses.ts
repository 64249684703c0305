// SPDX-License-Identifier: Apache-2.0
// The addresses of a Service: ClusterIP of each family (GetClusterIPByFamily in kube-proxy's util),
// spec.externalIPs, and load balancer ingress addresses with ipMode VIP (KEP-1860).
import { exactList } from '../../lib/compact.ts';
import { canonicalAddress, familyOf, isLoopback, isUnspecified } from '../../lib/ip.ts';
import { isAbsent, isRecord, type JsonRecord, shown } from '../../lib/json.ts';
import { readAddress, readList, readRecord } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';
import type { AddressAt, Family, PerFamily } from '../types.ts';

export interface ServiceAddresses {
  readonly clusterIps: PerFamily<AddressAt | undefined>;
  readonly externalIps: readonly AddressAt[];
  readonly loadBalancerIps: readonly AddressAt[];
}

/** Undefined if no ClusterIP can be read: then nothing else of the Service has a meaning either. */
export function readAddresses(
  object: JsonRecord,
  spec: JsonRecord,
  reject: Reject,
): ServiceAddresses | undefined {
  const clusterIps = readClusterIps(spec, reject);
  if (clusterIps === undefined) return undefined;
  return {
    clusterIps,
    externalIps: readExternalIps(spec, reject),
    loadBalancerIps: readLoadBalancerIps(object, reject),
  };
}

/** With ipFamilies each family has the entry at its index; without, spec.clusterIP says its own family. */
function readClusterIps(
  spec: JsonRecord,
  reject: Reject,
): PerFamily<AddressAt | undefined> | undefined {
  const first = readAddress(spec['clusterIP'], 'spec.clusterIP', reject);
  if (first === undefined) return undefined;
  const found: Record<Family, AddressAt | undefined> = { IPv4: undefined, IPv6: undefined };
  const families = readFamilies(spec, reject);
  const texts = readList(spec['clusterIPs'], 'spec.clusterIPs', reject);
  if (families.length === 0) {
    found[familyOf(first)] = { address: first, field: 'spec.clusterIP' };
  }
  for (const [index, family] of families.entries()) {
    const field = index === 0 ? 'spec.clusterIP' : 'spec.clusterIPs[1]';
    // A hand-written object may leave clusterIPs out: the API would fill in clusterIP.
    const text = index === 0 && texts.length === 0 ? first : texts[index];
    const address = isAbsent(text) ? undefined : readAddress(text, field, reject);
    if (family === undefined || address === undefined) continue;
    if (familyOf(address) === family) found[family] ??= { address, field };
    else reject(field, `${address} is not of ${family}, which spec.ipFamilies[${index}] says`);
  }
  return found;
}

function readFamilies(spec: JsonRecord, reject: Reject): readonly (Family | undefined)[] {
  const list = readList(spec['ipFamilies'], 'spec.ipFamilies', reject);
  return list.slice(0, 2).map((value, index) => {
    if (value === 'IPv4' || value === 'IPv6') return value;
    return reject(`spec.ipFamilies[${index}]`, `must be IPv4 or IPv6, not ${shown(value)}`);
  });
}

/** Duplicates of one address count once: linear. */
function distinct(list: readonly AddressAt[]): readonly AddressAt[] {
  if (list.length < 2) return exactList(list);
  const byAddress = new Map<string, AddressAt>();
  for (const item of list) if (!byAddress.has(item.address)) byAddress.set(item.address, item);
  return [...byAddress.values()];
}

function readExternalIps(spec: JsonRecord, reject: Reject): readonly AddressAt[] {
  const found: AddressAt[] = [];
  for (const [index, text] of readList(spec['externalIPs'], 'spec.externalIPs', reject).entries()) {
    const field = `spec.externalIPs[${index}]`;
    const address = readAddress(text, field, reject);
    if (address !== undefined) found.push({ address, field });
  }
  return distinct(found);
}

function readLoadBalancerIps(object: JsonRecord, reject: Reject): readonly AddressAt[] {
  const status = readRecord(object['status'], 'status', reject);
  const balancer = readRecord(status?.['loadBalancer'], 'status.loadBalancer', reject);
  const entries = readList(balancer?.['ingress'], 'status.loadBalancer.ingress', reject);
  const found: AddressAt[] = [];
  for (const [index, entry] of entries.entries()) {
    const ingress = readIngress(entry, `status.loadBalancer.ingress[${index}]`, reject);
    if (ingress !== undefined) found.push(ingress);
  }
  return distinct(found);
}

/** Undefined for host names and for ipMode Proxy: that traffic must reach the balancer itself. */
function readIngress(entry: unknown, field: string, reject: Reject): AddressAt | undefined {
  if (!isRecord(entry)) return reject(field, `must be an object, not ${shown(entry)}`);
  const { ip, ipMode } = entry;
  if (isAbsent(ip) || ip === '' || ipMode === 'Proxy') return undefined;
  if (!isAbsent(ipMode) && ipMode !== 'VIP') {
    return reject(`${field}.ipMode`, `must be VIP or Proxy, not ${shown(ipMode)}`);
  }
  const address = typeof ip === 'string' ? canonicalAddress(ip) : undefined;
  if (address === undefined || isLoopback(address) || isUnspecified(address)) {
    return reject(`${field}.ip`, `must be an address of a load balancer, not ${shown(ip)}`);
  }
  return { address, field: `${field}.ip` };
}
