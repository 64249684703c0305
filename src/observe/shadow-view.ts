// SPDX-License-Identifier: Apache-2.0
// What an agent with --shadow has found: for `status`, metrics and Events.

/** A Service that would be served in another way, for no reason that is known. */
export interface Differing {
  /** `default/web`, or `no Service` */
  readonly service: string;
  /** Its first difference: where, what the plan says, and what the rules do. */
  readonly what: string;
}

export interface ShadowView {
  /** The end of the last comparison; undefined: there was none. */
  readonly comparedAt?: string;
  readonly durationMs?: number;
  /** What the plan was compared with: `IPv4 iptables-nft`. */
  readonly rules: readonly string[];
  /** In the plan that was compared. */
  readonly services: number;
  /** By their reason, or `unexplained`. */
  readonly differences: Readonly<Record<string, number>>;
  /** Sorted by Service. */
  readonly differing: readonly Differing[];
  /** Rules of the other proxy that could not be read: nothing is proven where they decide. */
  readonly unread: readonly string[];
  /** A comparison is due: something has changed since, or what was found is to be read again. */
  readonly isDue: boolean;
  /** The last comparison has found what no reading before had: it counts if the next one has it, too. */
  readonly isOpen: boolean;
  /** Why nothing can be compared. */
  readonly problem?: string;
}

export const UNEXPLAINED = 'unexplained';

/** How many Services of a list are named. */
const NAMED = 3;

/** `default/web: …; default/dns: … + 3 more...` */
export function differingText(differing: readonly Differing[]): string {
  const named = differing.slice(0, NAMED).map(({ service, what }) => `${service}: ${what}`);
  const rest = differing.length - named.length;
  return `${named.join('; ')}${rest > 0 ? ` + ${rest} more...` : ''}`;
}

const noneText = ({ isOpen, unread }: ShadowView): string => {
  if (isOpen) return 'whether some differ is not proven yet';
  return unread.length === 0 ? 'none differs' : 'none is known to differ';
};

/** `12 Services would be served alike, 1 differs: …` */
export function shadowText(view: ShadowView): string {
  if (view.problem !== undefined) return view.problem;
  if (view.comparedAt === undefined) return 'not compared yet';
  const { services, differing, differences, rules, unread } = view;
  const known = Object.entries(differences).filter(([name]) => name !== UNEXPLAINED);
  const count = known.reduce((sum, [, each]) => sum + each, 0);
  const alike = services - differing.filter(({ service }) => service.includes('/')).length;
  return [
    `${alike} ${alike === 1 ? 'Service' : 'Services'} would be served as by ${rules.join(' and ')}`,
    differing.length === 0
      ? noneText(view)
      : `${differing.length} ${differing.length === 1 ? 'differs' : 'differ'}`,
    ...(count === 0
      ? []
      : [`known differences: ${known.map(([name, each]) => `${name} ${each}`).join(', ')}`]),
    ...(unread.length === 0 ? [] : [`rules that could not be read: ${unread.length}`]),
    ...(view.isDue ? ['to be compared again'] : []),
  ].join('; ');
}

interface Named {
  readonly namespace: string;
  readonly name: string;
}

/** Rows of Services, each with what the last comparison has proven of its Service. */
export function withShadow<Row extends Named>(
  rows: readonly Row[],
  view: ShadowView | undefined,
): readonly (Row & { readonly shadow?: string })[] {
  if (view === undefined) return rows;
  const differing = new Map(view.differing.map(({ service, what }) => [service, what]));
  const isProven =
    view.comparedAt !== undefined &&
    view.problem === undefined &&
    !view.isOpen &&
    !view.isDue &&
    view.unread.length === 0;
  return rows.map((row) => {
    const what = differing.get(`${row.namespace}/${row.name}`);
    return { ...row, shadow: what ?? (isProven ? 'as kube-proxy' : 'not proven yet') };
  });
}
