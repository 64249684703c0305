// SPDX-License-Identifier: Apache-2.0
// What kube-proxy has left in this network namespace, and the commands that remove it. src/engines/kube-proxy decides.
import type { HeldFrontend } from '../../engines/dataplane.ts';
import { toolsOf } from '../../engines/iptables/kernel/tools.ts';
import { CHAINS_AT_ONCE } from '../../engines/iptables/kernel/variant.ts';
import { heldFrontends } from '../../engines/iptables/state/inspect/view.ts';
import { OF_FAIRLEAD } from '../../engines/kube-proxy/chains.ts';
import { ipvsRemoval, ipvsRows } from '../../engines/kube-proxy/ipvs.ts';
import type { LeftoversFound, RemovalStep } from '../../engines/kube-proxy/leftover.ts';
import { type Needed, neededBy } from '../../engines/kube-proxy/needed.ts';
import { nftRemoval, nftRows } from '../../engines/kube-proxy/nftables.ts';
import { isServing } from '../../engines/kube-proxy/own-rules.ts';
import { keepingTracked, ruleRemoval, ruleRows } from '../../engines/kube-proxy/rules.ts';
import { translatedConnections } from '../../engines/kube-proxy/tracking.ts';
import { run } from '../../sys/exec.ts';
import { readIpvs, readNft, readRules, trackedConnections, type VariantRules } from './read.ts';
import { type Removal, runStep } from './step.ts';

export interface Scan extends LeftoversFound {
  /** Where fairlead's own iptables engine has programmed the same chains: `iptables-nft IPv4`. */
  readonly fairleads: readonly string[];
  /** Tools that could not be asked, and why. */
  readonly unread: readonly string[];
  /** Rules before the sets that they refer to. */
  readonly removals: readonly Removal[];
}

const NOTHING: Needed = { rules: new Map(), nft: new Map() };

export async function scanLeftovers(runProgram = run): Promise<Scan> {
  const rules = await readRules(runProgram);
  const hasRules = rules.value.some(({ found }) => found.tables.length > 0);
  const nft = await readNft(runProgram, hasRules);
  const ipvs = await readIpvs(runProgram);
  const isAny = hasRules || nft.value.tables.length > 0;
  const needed = isAny ? neededBy(rules.value, nft.value, translated()) : NOTHING;
  const removed = rules.value.map((one) => keeping(one, needed));
  const ofNft = nftRows(nft.value, needed.nft);
  const rows = [
    ...removed.map((one) => ruleRows(one.found, one.where)),
    ofNft,
    ipvsRows(ipvs.value),
  ];
  const steps = [
    ...(ofNft.leftovers.length === 0 ? [] : nftRemoval(nft.value, needed.nft)),
    ...ipvsRemoval(ipvs.value),
  ];
  return {
    leftovers: rows.flatMap(({ leftovers }) => leftovers),
    kept: rows.flatMap(({ kept }) => kept),
    fairleads: rules.value.flatMap(({ found, where }) => (found.isFairleads ? [where] : [])),
    unread: [...rules.unread, ...nft.unread, ...ipvs.unread],
    removals: [...removed.flatMap(restoring), ...steps.map(running)],
  };
}

function translated(): ReturnType<typeof translatedConnections> | undefined {
  const table = trackedConnections();
  return table === undefined ? undefined : translatedConnections(table);
}

function keeping(one: VariantRules, needed: Needed, marker?: string): VariantRules {
  const reason = needed.rules.get(one.family);
  return reason === undefined ? one : { ...one, found: keepingTracked(one.found, reason, marker) };
}

function restoring({ found, family, variant, where }: VariantRules): readonly Removal[] {
  const input = ruleRemoval(found, variant && CHAINS_AT_ONCE[variant]);
  if (input === '') return [];
  const { restore } = toolsOf(family, variant);
  return [{ name: where, run: async () => (await restore(input))?.reason }];
}

const running = (step: RemovalStep): Removal => ({
  name: [step.program, ...step.args].join(' '),
  step,
  run: () => runStep(step),
});

/** The rules of fairlead's own iptables engine: those that serve or, without, what is kept for connections. */
export interface OwnRules {
  readonly isServing: boolean;
  readonly isLeft: boolean;
  /** Connections that need something of them. */
  readonly isNeeded: boolean;
  readonly removals: readonly Removal[];
}

/** The frontends of fairlead's rules; none of rules that do not serve. */
export async function heldByOwnRules(runProgram = run): Promise<readonly HeldFrontend[]> {
  const { value: rules } = await readRules(runProgram, 'fairlead');
  return rules
    .filter(({ held }) => isServing(held))
    .flatMap(({ family, saved }) => heldFrontends(family, saved));
}

export async function scanOwnRules(runProgram = run): Promise<OwnRules> {
  const { value: rules } = await readRules(runProgram, 'fairlead');
  const isLeft = rules.some(({ found }) => found.tables.length > 0);
  if (!isLeft) return { isServing: false, isLeft, isNeeded: false, removals: [] };
  const nft = await readNft(runProgram, true);
  const needed = neededBy(rules, nft.value, translated());
  const removed = rules.map((one) => keeping(one, needed, OF_FAIRLEAD));
  return {
    isServing: rules.some(({ held }) => isServing(held)),
    isLeft,
    isNeeded: removed.some(({ found }) => found.kept.length > 0),
    removals: removed.flatMap(restoring),
  };
}
