// SPDX-License-Identifier: Apache-2.0
// The addresses of a Service: ClusterIP of each family (GetClusterIPByFamily in kube-proxy's util),
// spec.externalIPs, and load balancer ingress addresses with ipMode VIP (KEP-1860).
import { exactList } from '../lib/compact.ts';
import { canonicalAddress, familyOf, isLoopback, isUnspecified } from '../lib/ip.ts';
import { isAbsent, isRecord, type JsonRecord, shown } from '../lib/json.ts';
import { readAddress, readList, readRecord } from './fields.ts';
import type { Refuse } from './refusals.ts';
import type { AddressAt, Family, PerFamily } from './types.ts';

export interface ServiceAddresses {
  readonly clusterIps: PerFamily<AddressAt | undefined>;
  readonly externalIps: readonly AddressAt[];
  readonly loadBalancerIps: readonly AddressAt[];
}

/** Undefined if no ClusterIP can be read: then nothing else of the Service has a meaning either. */
export function readAddresses(
  object: JsonRecord,
  spec: JsonRecord,
  refuse: Refuse,
): ServiceAddresses | undefined {
  const clusterIps = readClusterIps(spec, refuse);
  if (clusterIps === undefined) return undefined;
  return {
    clusterIps,
    externalIps: readExternalIps(spec, refuse),
    loadBalancerIps: readLoadBalancerIps(object, refuse),
  };
}

/** With ipFamilies each family has the entry at its index; without, spec.clusterIP says its own family. */
function readClusterIps(
  spec: JsonRecord,
  refuse: Refuse,
): PerFamily<AddressAt | undefined> | undefined {
  const first = readAddress(spec['clusterIP'], 'spec.clusterIP', refuse);
  if (first === undefined) return undefined;
  const found: Record<Family, AddressAt | undefined> = { IPv4: undefined, IPv6: undefined };
  const families = readFamilies(spec, refuse);
  const texts = readList(spec['clusterIPs'], 'spec.clusterIPs', refuse);
  if (families.length === 0) {
    found[familyOf(first)] = { address: first, field: 'spec.clusterIP' };
  }
  for (const [index, family] of families.entries()) {
    const field = index === 0 ? 'spec.clusterIP' : 'spec.clusterIPs[1]';
    // A hand-written object may leave clusterIPs out: the API would fill in clusterIP.
    const text = index === 0 && texts.length === 0 ? first : texts[index];
    const address = isAbsent(text) ? undefined : readAddress(text, field, refuse);
    if (family === undefined || address === undefined) continue;
    if (familyOf(address) === family) found[family] ??= { address, field };
    else refuse(field, `${address} is not of ${family}, which spec.ipFamilies[${index}] says`);
  }
  return found;
}

function readFamilies(spec: JsonRecord, refuse: Refuse): readonly (Family | undefined)[] {
  const list = readList(spec['ipFamilies'], 'spec.ipFamilies', refuse);
  return list.slice(0, 2).map((value, index) => {
    if (value === 'IPv4' || value === 'IPv6') return value;
    return refuse(`spec.ipFamilies[${index}]`, `must be IPv4 or IPv6, not ${shown(value)}`);
  });
}

/** Duplicates of one address count once: linear. */
function distinct(list: readonly AddressAt[]): readonly AddressAt[] {
  if (list.length < 2) return exactList(list);
  const byAddress = new Map<string, AddressAt>();
  for (const item of list) if (!byAddress.has(item.address)) byAddress.set(item.address, item);
  return [...byAddress.values()];
}

function readExternalIps(spec: JsonRecord, refuse: Refuse): readonly AddressAt[] {
  const found: AddressAt[] = [];
  for (const [index, text] of readList(spec['externalIPs'], 'spec.externalIPs', refuse).entries()) {
    const field = `spec.externalIPs[${index}]`;
    const address = readAddress(text, field, refuse);
    if (address !== undefined) found.push({ address, field });
  }
  return distinct(found);
}

function readLoadBalancerIps(object: JsonRecord, refuse: Refuse): readonly AddressAt[] {
  const status = readRecord(object['status'], 'status', refuse);
  const balancer = readRecord(status?.['loadBalancer'], 'status.loadBalancer', refuse);
  const entries = readList(balancer?.['ingress'], 'status.loadBalancer.ingress', refuse);
  const found: AddressAt[] = [];
  for (const [index, entry] of entries.entries()) {
    const ingress = readIngress(entry, `status.loadBalancer.ingress[${index}]`, refuse);
    if (ingress !== undefined) found.push(ingress);
  }
  return distinct(found);
}

/** Undefined for host names and for ipMode Proxy: that traffic must reach the balancer itself. */
function readIngress(entry: unknown, field: string, refuse: Refuse): AddressAt | undefined {
  if (!isRecord(entry)) return refuse(field, `must be an object, not ${shown(entry)}`);
  const { ip, ipMode } = entry;
  if (isAbsent(ip) || ip === '' || ipMode === 'Proxy') return undefined;
  if (!isAbsent(ipMode) && ipMode !== 'VIP') {
    return refuse(`${field}.ipMode`, `must be VIP or Proxy, not ${shown(ipMode)}`);
  }
  const address = typeof ip === 'string' ? canonicalAddress(ip) : undefined;
  if (address === undefined || isLoopback(address) || isUnspecified(address)) {
    return refuse(`${field}.ip`, `must be an address of a load balancer, not ${shown(ip)}`);
  }
  return { address, field: `${field}.ip` };
}
