// SPDX-License-Identifier: Apache-2.0
// The plan as tables of nftables, in the layout of kube-proxy's nftables mode. A Service that did not change keeps its
// identical fragment, so that only what differs is looked at: see state/wanted.ts.
import { FAMILIES, type Family } from '../../../model/types.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../../plan/types.ts';
import { OPEN_CLUSTER_IPS, serviceChains } from '../rules/names.ts';
import type { Chain, Element, Fragment, Ruleset, SetDeclaration } from '../rules/types.ts';
import { type Blocks, createBlocks, type FoundBlock } from './blocks.ts';
import type { RenderContext } from './match.ts';
import { renderPort } from './service-port.ts';
import { sharedChains, sharedSets } from './shared.ts';

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

interface Rendered {
  readonly plan: ServicePlan;
  readonly fragment: Fragment;
}

function createFamilyRenderer(
  { masqueradeBit, isTcpLiberal }: RenderSettings,
  family: Family,
): FamilyRenderer {
  const blocks = createBlocks();
  const mark = 2 ** masqueradeBit;
  /** Of the last plan alone: an older fragment may name blocks that are another Service's by now. */
  let known: ReadonlyMap<ServiceKey, Rendered> = new Map();
  let knownContext = '';
  let chains: ReadonlyMap<string, Chain> = new Map();
  let knownShared = '';
  const sets: ReadonlyMap<string, SetDeclaration> = sharedSets(family);
  return {
    blocks,
    render(plan) {
      const detector = plan.detector[family];
      const contextText = JSON.stringify(detector) ?? '';
      if (contextText !== knownContext) known = withoutPlans(known);
      knownContext = contextText;
      const next = rendered(plan, known, { family, detector, mark, blocks });
      known = next;
      const fragments = new Map([...next].map(([key, { fragment }]) => [key, fragment]));
      const masquerades = masqueradesOf(fragments.values());
      const sharedText = JSON.stringify([masquerades, detector, plan.nodePortAddresses[family]]);
      if (sharedText !== knownShared) {
        const own = { family, mark, isTcpLiberal, masquerades };
        const { nodePortAddresses } = plan;
        const parts = { ...own, nodePortAddresses, detector: plan.detector };
        chains = sharedChains(parts);
      }
      knownShared = sharedText;
      return { family, chains, sets, fragments };
    },
  };
}

/** Everything is rendered again, and what goes is known. */
const withoutPlans = (
  known: ReadonlyMap<ServiceKey, Rendered>,
): ReadonlyMap<ServiceKey, Rendered> =>
  new Map(
    [...known].map(([key, { plan, fragment }]) => [key, { plan: { ...plan }, fragment }] as const),
  );

/** First what goes, so that its blocks are free for what comes. */
function rendered(
  { services }: Plan,
  known: ReadonlyMap<ServiceKey, Rendered>,
  context: RenderContext,
): ReadonlyMap<ServiceKey, Rendered> {
  for (const [key, { plan }] of known) {
    const now = services.get(key);
    if (now !== plan) releaseGone(plan, now, context);
  }
  const next = new Map<ServiceKey, Rendered>();
  for (const [key, plan] of services) {
    const before = known.get(key);
    next.set(
      key,
      before?.plan === plan ? before : { plan, fragment: renderService(plan, context) },
    );
  }
  return next;
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
function masqueradesOf(
  fragments: Iterable<Pick<Fragment, 'masquerades'>>,
): Fragment['masquerades'] {
  for (const { masquerades } of fragments) if (masquerades !== 'nobody') return masquerades;
  return 'nobody';
}
