// SPDX-License-Identifier: Apache-2.0
// An entry is one unit that a dataplane programs: an id and a one-line text.
import { flatText } from '../lib/compact.ts';
import type { Family, Protocol } from '../model/types.ts';

export interface FrontendId {
  readonly family: Family;
  /** undefined: every address of the node that answers NodePorts. */
  readonly address: string | undefined;
  /** undefined, as the protocol then is: every port that has no frontend of its own. */
  readonly port: number | undefined;
  readonly protocol: Protocol | undefined;
}

export type EntryId =
  | { readonly kind: 'frontend'; readonly frontend: FrontendId }
  /** By the key of the plan's ServicePortPlan. */
  | { readonly kind: 'service-port'; readonly port: string }
  | { readonly kind: 'backend'; readonly family: Family; readonly backend: string }
  /** The backends that a frontend chooses from. */
  | { readonly kind: 'set'; readonly port: string }
  | { readonly kind: 'node-address'; readonly family: Family; readonly address: string }
  /** Another node, for direct return. */
  | { readonly kind: 'peer'; readonly address: string }
  /** A value that programs read. */
  | { readonly kind: 'setting'; readonly setting: string }
  /** Of a service port; undefined: of pods, or of nobody. */
  | { readonly kind: 'source-range'; readonly prefix: string; readonly port: string | undefined }
  /** Of iptables; a chain of others as far as it jumps to ours. */
  | {
      readonly kind: 'chain';
      readonly family: Family;
      readonly table: string;
      readonly chain: string;
    }
  /** The dataplane as a whole: the failed entries are not known. */
  | { readonly kind: 'dataplane'; readonly dataplane: string };

export interface Entry {
  readonly id: EntryId;
  /** E.g. `frontend 10.96.0.10:80/TCP`; for drift, with the difference. */
  readonly text: string;
}

/** `10.96.0.10:80/TCP`, `[fd00::1]:80/UDP`, `*:30080/TCP`, `10.96.0.10:*`: unique within a family. */
export function frontendText({ address, port, protocol }: FrontendId): string {
  const host = address?.includes(':') ? `[${address}]` : (address ?? '*');
  return port === undefined || protocol === undefined
    ? flatText(host, ':*')
    : flatText(host, ':', String(port), '/', protocol);
}

/** As frontendText, unique across families: a NodePort's text is the same in both. */
export const frontendKeyText = (id: FrontendId): string =>
  frontendTextIn(id.family, frontendText(id));

/** The key text of a frontend whose text is known. */
export const frontendTextIn = (family: Family, text: string): string => `${family} ${text}`;

export const frontendEntry = (frontend: FrontendId, what = ''): Entry => ({
  id: { kind: 'frontend', frontend },
  text: `frontend ${frontendText(frontend)}${what}`,
});
