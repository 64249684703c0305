// SPDX-License-Identifier: Apache-2.0
// The plan as tables of nftables, in the layout of kube-proxy's nftables mode. A Service that did not change keeps its
// identical fragment, so that only what differs is looked at: see state/wanted.ts.
import { differences, persistentMap } from '../../../lib/persistent/map.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../../plan/types.ts';
import { OPEN_CLUSTER_IPS, serviceChains } from '../rules/names.ts';
import type { Chain, Element, Fragment, Ruleset, SetDeclaration } from '../rules/types.ts';
import { type Blocks, createBlocks, type FoundBlock } from './blocks.ts';
import type { RenderContext } from './match.ts';
import { renderPort } from './service-port.ts';
import { sharedChains, sharedSets } from './shared.ts';
import { NO_USES, type Uses, usesAfter } from './uses.ts';

export interface RenderSettings {
  /** 0..31: the bit of a packet's mark that says "masquerade" (nftables.masqueradeBit). */
  readonly masqueradeBit: number;
  /** nf_conntrack_tcp_be_liberal. */
  readonly isTcpLiberal: boolean;
}

export interface Renderer {
  render(plan: Plan): readonly Ruleset[];
  /** Before the first plan: where an earlier agent has put the backends of its chains, so that they stay there. */
  adopt(family: Family, found: readonly FoundBlock[]): void;
}

interface FamilyRenderer {
  readonly blocks: Blocks;
  render(plan: Plan): Ruleset;
}

export function createRenderer(settings: RenderSettings): Renderer {
  const families = {
    IPv4: createFamilyRenderer(settings, 'IPv4'),
    IPv6: createFamilyRenderer(settings, 'IPv6'),
  };
  return {
    render: (plan) => FAMILIES.map((family) => families[family].render(plan)),
    adopt: (family, found) => families[family].blocks.adopt(found),
  };
}

function createFamilyRenderer(
  { masqueradeBit, isTcpLiberal }: RenderSettings,
  family: Family,
): FamilyRenderer {
  const blocks = createBlocks();
  const mark = 2 ** masqueradeBit;
  /** The last plan alone: an older fragment may name blocks that are another Service's by now. */
  let services: Plan['services'] = new Map();
  let fragments = persistentMap<Fragment>();
  let uses: Uses = NO_USES;
  let knownContext = '';
  let chains: ReadonlyMap<string, Chain> = new Map();
  let knownShared = '';
  const sets: ReadonlyMap<string, SetDeclaration> = sharedSets(family);
  return {
    blocks,
    render(plan) {
      const detector = plan.detector[family];
      const contextText = JSON.stringify(detector) ?? '';
      const keys =
        contextText === knownContext
          ? differences(services, plan.services)
          : new Set([...services.keys(), ...plan.services.keys()]);
      const context = { family, detector, mark, blocks };
      const changes = rendered(keys, services, plan.services, context);
      services = plan.services;
      knownContext = contextText;
      uses = usesAfter(uses, fragments, changes);
      fragments = fragments.withChanges(changes);
      const { masquerades } = uses;
      const sharedText = JSON.stringify([masquerades, detector, plan.nodePortAddresses[family]]);
      if (sharedText !== knownShared) {
        const own = { family, mark, isTcpLiberal, masquerades };
        const { nodePortAddresses } = plan;
        const parts = { ...own, nodePortAddresses, detector: plan.detector };
        chains = sharedChains(parts);
      }
      knownShared = sharedText;
      return { family, chains, sets, fragments, maps: uses.maps, hairpins: uses.hairpins };
    },
  };
}

type Change = readonly [key: ServiceKey, fragment: Fragment | undefined];

/** First what goes, so that its blocks are free for what comes. */
function rendered(
  keys: Iterable<ServiceKey>,
  before: Plan['services'],
  now: Plan['services'],
  context: RenderContext,
): readonly Change[] {
  const all = [...keys];
  for (const key of all) {
    const plan = before.get(key);
    if (plan !== undefined) releaseGone(plan, now.get(key), context);
  }
  return all.map((key) => {
    const plan = now.get(key);
    return [key, plan && renderService(plan, context)];
  });
}

function releaseGone(
  before: ServicePlan,
  now: ServicePlan | undefined,
  { family, blocks }: RenderContext,
): void {
  const left = new Set(now?.ports.map(({ key }) => key));
  for (const port of before.ports) {
    if (port.family !== family || left.has(port.key)) continue;
    const { cluster, local } = serviceChains(port);
    blocks.release(cluster);
    blocks.release(local);
  }
}

function renderService(service: ServicePlan, context: RenderContext): Fragment {
  const ports = service.ports.filter(({ family }) => family === context.family);
  const [first, ...others] = ports.map((port) => renderPort(port, context));
  if (first === undefined) return NOTHING;
  const fragment = others.reduce(joined, first);
  // Its first port refuses the others of its ClusterIP, so that the address is not open.
  const refusing = new Set(ports.flatMap((port) => port.refusesOtherPortsOf ?? []));
  const isMeant = ({ set, key }: Element): boolean =>
    set !== OPEN_CLUSTER_IPS || !refusing.has(key);
  return refusing.size === 0 || ports.length === 1
    ? fragment
    : { ...fragment, elements: fragment.elements.filter(isMeant) };
}

const NOTHING: Fragment = {
  ...{ chains: [], sets: [], elements: [], maps: [], hairpins: [] },
  masquerades: 'nobody',
};

const joined = (one: Fragment, other: Fragment): Fragment => ({
  chains: [...one.chains, ...other.chains],
  sets: [...one.sets, ...other.sets],
  elements: [...one.elements, ...other.elements],
  maps: [...one.maps, ...other.maps],
  hairpins: [...one.hairpins, ...other.hairpins],
  masquerades: masqueradesOf([one, other]),
});

/** All Services with a ClusterIP say the same. */
const masqueradesOf = (
  fragments: readonly Pick<Fragment, 'masquerades'>[],
): Fragment['masquerades'] =>
  fragments.find(({ masquerades }) => masquerades !== 'nobody')?.masquerades ?? 'nobody';
