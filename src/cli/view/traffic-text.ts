// SPDX-License-Identifier: Apache-2.0
// Packets or bytes both ways in one cell: to the backend / to the client.
import type { Traffic } from '../../engines/snapshot.ts';
import { sizeText } from './units.ts';

interface BothWays {
  readonly toBackend?: Traffic | undefined;
  readonly toClient?: Traffic | undefined;
}

/** `12/9`. */
export const packetsText = (of: BothWays): string => pairText(of, ({ packets }) => String(packets));

/** `1.5Ki/34Mi`. */
export const bytesText = (of: BothWays): string => pairText(of, ({ bytes }) => sizeText(bytes));

/** '' if neither is known. */
function pairText({ toBackend, toClient }: BothWays, text: (traffic: Traffic) => string): string {
  if (toBackend === undefined && toClient === undefined) return '';
  const part = (traffic: Traffic | undefined): string =>
    traffic === undefined ? '-' : text(traffic);
  return `${part(toBackend)}/${part(toClient)}`;
}
