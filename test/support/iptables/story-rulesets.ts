// SPDX-License-Identifier: Apache-2.0
// The rules of every state of every conformance story.

import { createRenderer } from '../../../src/engines/iptables/rows/render.ts';
import type { RenderSettings } from '../../../src/engines/iptables/rows/settings.ts';
import type { Ruleset } from '../../../src/engines/iptables/rules/types.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { STORIES } from '../../conformance/conformance.ts';
import { readStories, type Step, type Story } from '../../conformance/story.ts';
import { createPlanner } from '../plan/planner.ts';

/** kube-proxy's defaults. */
export const DEFAULTS: RenderSettings = {
  masqueradeBit: 14,
  hasRandomFully: true,
  hasLocalhostNodePorts: true,
  isTcpLiberal: false,
  accounting: [],
};

export interface StoryState {
  readonly step: Step;
  readonly plan: Plan;
  readonly rulesets: readonly Ruleset[];
}

export interface StoryStates {
  /** `policies.yaml`. */
  readonly file: string;
  readonly story: Story;
  /** The first is the cluster without Services. */
  readonly states: readonly StoryState[];
}

let found: readonly StoryStates[] | undefined;

/** Computed once: tests ask again and again, and nothing of it changes. */
export const storyRulesets = (): readonly StoryStates[] => {
  found ??= STORIES.flatMap((file) =>
    readStories(file).map((story) => ({ file, story, states: statesOf(story) })),
  );
  return found;
};

export function statesOf({ settings, steps }: Story): readonly StoryState[] {
  const planner = createPlanner(settings);
  const renderer = createRenderer(DEFAULTS);
  return steps.map((step) => {
    const { plan: current } = planner.apply(step.changes);
    // The planner's own map changes with later steps.
    const plan = { ...current, services: new Map(current.services) };
    return { step, plan, rulesets: renderer.render(plan) };
  });
}
