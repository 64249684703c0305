// SPDX-License-Identifier: Apache-2.0
// Whether the rules of another proxy serve what fairlead serves, so that it may cease to. Rules that a proxy has left lack Services
// that came later, or name endpoints that are gone; those of one that has synced since it started may differ, because
// fairlead's agent has ended before.
import { FAMILIES, type Family } from '../../../model/types.ts';
import { frontendText } from '../../entry.ts';
import type { Snapshot } from '../../snapshot.ts';

/** What one kind of rules serves in one family: of iptables, nftables, or ipvs. */
export interface OtherRules {
  /** `iptables-nft`, `nftables`, `ipvs` */
  readonly where: string;
  readonly family: Family;
  /** Backends as `address:port`, by the text of the frontend: `10.96.0.10:80/TCP`. */
  readonly frontends: ReadonlyMap<string, readonly string[]>;
}

/** A frontend that fairlead serves. */
export interface OwnFrontend {
  readonly family: Family;
  readonly text: string;
  /** `default/web` */
  readonly service: string;
  /** It has backends now. */
  readonly isServed: boolean;
  /** Those that get new connections: rules that name one that ends were written before. */
  readonly known: ReadonlySet<string>;
}

export interface Judgement {
  readonly family: Family;
  /** Frontends of fairlead. */
  readonly total: number;
  /** The rules that come nearest; undefined: there are none. */
  readonly where: string | undefined;
  readonly missing: readonly OwnFrontend[];
  /** Their rules name a backend that is not known, or none at all. */
  readonly outdated: readonly OwnFrontend[];
  /** kube-proxy says that it has written its rules since it started. */
  readonly isSynced: boolean;
  readonly isServed: boolean;
}

/** NodePorts have no address of their own: whoever has written a ClusterIP has written them, too. */
export const ownFrontends = ({ frontends }: Pick<Snapshot, 'frontends'>): readonly OwnFrontend[] =>
  frontends
    .filter(({ id }) => id.address !== undefined && id.port !== undefined)
    .map(({ id, port, internal, external }) => ({
      family: id.family,
      text: frontendText(id),
      service: `${port.namespace}/${port.name}`,
      isServed: internal.length + external.length > 0,
      known: new Set([...internal, ...external]),
    }));

/** One for each family that fairlead serves. @param synced the families in which kube-proxy says that it has written its rules */
export const judge = (
  own: readonly OwnFrontend[],
  rules: readonly OtherRules[],
  synced: ReadonlySet<Family>,
): readonly Judgement[] =>
  FAMILIES.flatMap((family): readonly Judgement[] => {
    const ours = own.filter((one) => one.family === family);
    if (ours.length === 0) return [];
    const all = rules
      .filter((one) => one.family === family && one.frontends.size > 0)
      .map((one) => judged(ours, one, synced.has(family)));
    const nearest = all.toSorted((a, b) => faults(a) - faults(b))[0];
    return [nearest ?? judged(ours, { where: undefined, frontends: new Map() }, false)];
  });

const faults = ({ missing, outdated }: Judgement): number => missing.length + outdated.length;

function judged(
  own: readonly OwnFrontend[],
  { where, frontends }: Pick<OtherRules, 'frontends'> & Pick<Judgement, 'where'>,
  isSynced: boolean,
): Judgement {
  const missing = own.filter(({ text }) => !frontends.has(text));
  const outdated = own.filter((one) => isOutdated(one, frontends.get(one.text)));
  const hasAll = missing.length + outdated.length === 0;
  return {
    family: own[0]?.family ?? 'IPv4',
    ...{ total: own.length, where, missing, outdated, isSynced },
    // Of a kube-proxy of another network namespace, none would be here.
    isServed: hasAll || (isSynced && missing.length < own.length),
  };
}

/** Fewer backends than fairlead has are right: they answer. */
const isOutdated = ({ isServed, known }: OwnFrontend, found: readonly string[] | undefined) =>
  found !== undefined &&
  (found.some((backend) => !known.has(backend)) || (found.length === 0 && isServed));

/** `IPv4: iptables-nft lacks 2 of 12 addresses (default/web 10.96.0.10:80/TCP, …)`. */
export function judgementText(judgement: Judgement): string {
  const { family, total, where, missing, outdated, isServed, isSynced } = judgement;
  const all = `${total} ${total === 1 ? 'address' : 'addresses'}`;
  if (where === undefined) return `${family}: no other proxy has rules for ${all} of Services`;
  if (missing.length + outdated.length === 0) return `${family}: ${where} serves ${all}`;
  const parts = [
    missing.length === 0 ? [] : [`lacks ${missing.length} of ${all}${examples(missing)}`],
    outdated.length === 0
      ? []
      : [`has other endpoints for ${outdated.length}${examples(outdated)}`],
  ].flat();
  const differs = `${where} ${parts.join(', and ')}`;
  if (!isServed) return `${family}: ${differs}`;
  return isSynced ? `${family}: kube-proxy has synced since it started; ${differs}` : differs;
}

const MAX_EXAMPLES = 2;

function examples(frontends: readonly OwnFrontend[]): string {
  const named = frontends.slice(0, MAX_EXAMPLES).map(({ service, text }) => `${service} ${text}`);
  return ` (${[...named, ...(frontends.length > MAX_EXAMPLES ? ['…'] : [])].join(', ')})`;
}
