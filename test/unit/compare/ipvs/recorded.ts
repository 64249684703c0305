// SPDX-License-Identifier: Apache-2.0
// What kube-proxy 1.37 has written in mode ipvs on Linux 6.12 (HZ 250) for the Services of test/integration/kernels/lab/compare.sh, and
// the plan of the same objects.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Comparison, compare, type Difference } from '../../../../src/compare/compare.ts';
import { reasonsOf } from '../../../../src/compare/known.ts';
import { readIpSets } from '../../../../src/compare/rules/ipsets.ts';
import { readIptables } from '../../../../src/compare/rules/iptables.ts';
import { ipvsProgram } from '../../../../src/compare/rules/ipvs.ts';
import { merged } from '../../../../src/compare/rules/merged.ts';
import { planSide } from '../../../../src/compare/sides/plan-side.ts';
import { rulesSide } from '../../../../src/compare/sides/rules-side.ts';
import type { Side } from '../../../../src/compare/sides/side.ts';
import {
  parseVirtualServers,
  type VirtualServer,
} from '../../../../src/engines/kube-proxy/ipvs.ts';
import type { ObjectChange } from '../../../../src/model/types.ts';
import { createPlanner } from '../../../../src/plan/planner.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import { SETTINGS } from '../../plan/support.ts';

const HZ = 250;
export const IPVS_NODE = { own: ['192.0.2.11', '192.0.3.1', '10.1.1.1', '198.51.100.1'] };

export const IPVS_FILES = ['iptables.save', 'ipset.save', 'ip_vs'] as const;
export type IpvsTexts = Readonly<Record<(typeof IPVS_FILES)[number], string>>;

const recorded = (name: string): string =>
  readFileSync(join(import.meta.dirname, 'recorded', name), 'utf8');

export const ipvsTexts = (): IpvsTexts => ({
  'iptables.save': recorded('iptables.save'),
  'ipset.save': recorded('ipset.save'),
  ip_vs: recorded('ip_vs'),
});

export function ipvsSide(texts: IpvsTexts): Side {
  const ipsets = readIpSets(texts['ipset.save']);
  const addresses = [...(ipsets.get('KUBE-IPVS-IPS')?.elements.exact.keys() ?? [])];
  const rules = readIptables('IPv4', texts['iptables.save'], { ipsets });
  if (!rules.ok) throw new Error(rules.reason);
  const servers = ipvsProgram('IPv4', {
    ...{ servers: parseVirtualServers(texts.ip_vs), addresses, isProxys: () => true },
    secondsOf: ({ persistence }: VirtualServer) => persistence && persistence.jiffies / HZ,
  });
  return rulesSide({ kind: 'ipvs', name: 'ipvs' }, merged(rules.value, servers), IPVS_NODE);
}

export function ipvsPlan(): Plan {
  const objects = JSON.parse(recorded('objects.json')) as {
    readonly kind: string;
    readonly metadata: { readonly name: string; readonly namespace?: string };
  }[];
  const changes = objects.map((object) => {
    const { name, namespace = '' } = object.metadata;
    return { type: 'put', ref: { kind: object.kind, namespace, name }, object } as ObjectChange;
  });
  const settings = { ...SETTINGS, nodeName: 'n1', clusterCidrs: ['10.1.0.0/16'] };
  return createPlanner(settings).apply(changes);
}

export function comparedWithIpvs(plan: Plan, rules: Side): Comparison {
  const sides = [planSide(plan, 'IPv4', IPVS_NODE), rules] as const;
  const reasonOf = reasonsOf({ sides, node: IPVS_NODE, plain: undefined });
  return compare({ family: 'IPv4', node: IPVS_NODE, sides }, { reasonOf, isKept: () => true });
}

export type { Difference };
