// SPDX-License-Identifier: Apache-2.0
// What a comparison proves, and how a difference is named.
import { frontendKey } from '../plan/decide/frontends.ts';
import type { Comparison, Difference } from './compare.ts';
import { FOREIGN_RULE } from './known.ts';

/** A rule of a proxy that cannot be read may decide: then nothing is proven. */
export const isProven = ({ differences, unread }: Comparison): boolean =>
  !differences.some(isUnexplained) && unread.every(({ isForeign }) => isForeign);

export const isUnexplained = ({ reason }: Difference): boolean =>
  reason === undefined || reason === FOREIGN_RULE;

/** `default/web` */
export const serviceOf = ({ claim }: Difference): string =>
  claim === undefined ? 'no Service' : claim.service;

/** `10.96.0.10:80/TCP` */
export const frontendOf = ({ destination: { address, port, protocol } }: Difference): string =>
  frontendKey(address, port, protocol);
