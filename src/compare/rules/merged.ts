// SPDX-License-Identifier: Apache-2.0
// Rules of several programs in one kernel as one program: iptables of both variants and nftables call the same hooks.
import type { BaseChain, Hook, Program, Survey } from './types.ts';

/** Of one family. Where priorities are the same, earlier ones come first. @param own whose family it is */
export function merged(own: Program, ...others: readonly Program[]): Program {
  if (others.length === 0) return own;
  const all = [own, ...others];
  const hook = (name: Hook): readonly BaseChain[] =>
    all.flatMap(({ hooks }) => hooks[name]).sort((a, b) => a.priority - b.priority);
  return {
    family: own.family,
    hooks: {
      prerouting: hook('prerouting'),
      input: hook('input'),
      forward: hook('forward'),
      output: hook('output'),
      postrouting: hook('postrouting'),
    },
    chains: {
      get: (name) => {
        for (const { chains } of all) {
          const rules = chains.get(name);
          if (rules !== undefined) return rules;
        }
        return undefined;
      },
      *values() {
        for (const { chains } of all) yield* chains.values();
      },
    },
    survey: surveys(all.map(({ survey }) => survey)),
    sets: new Map(all.flatMap(({ sets }) => [...sets])),
    virtualAddresses: new Set(all.flatMap((one) => [...(one.virtualAddresses ?? [])])),
  };
}

const surveys = (all: readonly Survey[]): Survey => ({
  addresses: new Set(all.flatMap(({ addresses }) => [...addresses])),
  ranges: all.flatMap(({ ranges }) => ranges),
  seconds: new Map(all.flatMap(({ seconds }) => [...seconds])),
  unread: all.flatMap(({ unread }) => unread),
});
