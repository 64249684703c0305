// SPDX-License-Identifier: Apache-2.0
// Chains that a hook of netfilter calls, as the kernel lists them: which there are is known without the program that prints their rules.
import { attributeIn, viewOf } from '../wire.ts';
import { dump, FAMILIES } from './dump.ts';
import { textAt, whole, within } from './map-elements.ts';

export interface NftBaseChain {
  /** As nft names it: `ip`, `inet`, `netdev`. */
  readonly family: string;
  readonly table: string;
  readonly name: string;
  readonly type: string;
  readonly hook: string;
  readonly prio: number;
}

const NFT_MSG_GETCHAIN = 4;
const NFTA_CHAIN = { TABLE: 1, NAME: 3, HOOK: 4, TYPE: 7 } as const;
const NFTA_HOOK = { NUMBER: 1, PRIORITY: 2 } as const;
const HOOKS = ['prerouting', 'input', 'forward', 'output', 'postrouting', 'ingress'] as const;
const HOOKS_OF_DEVICES = ['ingress', 'egress'] as const;

/** Throws the kernel's errno. */
export function nftBaseChains(): readonly NftBaseChain[] {
  return dump({ message: NFT_MSG_GETCHAIN }).flatMap((body): readonly NftBaseChain[] => {
    const view = viewOf(body);
    const hook = attributeIn(view, whole(body), NFTA_CHAIN.HOOK);
    const number = within(view, hook, NFTA_HOOK.NUMBER);
    const priority = within(view, hook, NFTA_HOOK.PRIORITY);
    if (number === undefined || priority === undefined) return [];
    const family = FAMILIES[body[0] ?? 0] ?? '';
    const hooks = family === 'netdev' ? HOOKS_OF_DEVICES : HOOKS;
    return [
      {
        ...{ family, table: textAt(body, NFTA_CHAIN.TABLE) ?? '' },
        ...{ name: textAt(body, NFTA_CHAIN.NAME) ?? '', type: textAt(body, NFTA_CHAIN.TYPE) ?? '' },
        hook: hooks[view.getUint32(number.from)] ?? '',
        prio: view.getInt32(priority.from),
      },
    ];
  });
}
