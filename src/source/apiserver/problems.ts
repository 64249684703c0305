// SPDX-License-Identifier: Apache-2.0
// What keeps a cluster from being followed, for people: one problem however many kinds of objects have it,
// and what to do about it.
import type { Problem } from '../../model/problem.ts';
import type { ClusterProblem } from './cluster.ts';

export interface ClusterContext {
  /** The URLs to start with, the preferred one first. */
  readonly servers: readonly string[];
  /** Where our token or certificate, and the CA, come from. */
  readonly credentials: string;
  /** How many kinds are followed. */
  readonly kinds: number;
}

export function foldProblems(
  problems: readonly ClusterProblem[],
  cluster: ClusterContext,
): readonly Problem[] {
  const kindsOf = new Map<string, string[]>();
  for (const { kind, reason } of problems) {
    const text = textOf(withoutDetail(reason), cluster);
    kindsOf.set(text, [...(kindsOf.get(text) ?? []), kind]);
  }
  return [...kindsOf].map(([reason, kinds]) => ({
    reason,
    kinds: kinds.length === cluster.kinds ? 'all' : kinds.join(', '),
  }));
}

/** In which kinds, and servers of one ring, differ though they have the same problem. */
function withoutDetail(reason: string): string {
  return reason
    .replace(/^(connect E[A-Z]+) \S+$/, '$1')
    .replace(/ \(attempted address(?:es)?: .*, timeout: (\d+)ms\)$/, ' ($1 ms)')
    .replace(/^no answer from \S+ in time$/, 'no answer in time')
    .replace(
      /^(HTTP 403): .* is forbidden: User (".*?") cannot .*$/s,
      '$1: user $2 may not read them',
    );
}

function textOf(reason: string, cluster: ClusterContext): string {
  const advice = ADVICE.find(([pattern]) => pattern.test(reason))?.[1](cluster);
  const text = `${reason}${advice === undefined ? '' : `; ${advice}`}`;
  // A kubeconfig that cannot be used is named in its reason, and no server was asked.
  if (reason.startsWith('kubeconfig ')) return text;
  const [first, ...others] = cluster.servers;
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  return `API server ${first}${more}: ${text}`;
}

const ADVICE: readonly (readonly [RegExp, (cluster: ClusterContext) => string])[] = [
  [
    /^HTTP 401/,
    ({ credentials }) =>
      `renew the credentials in ${credentials}: they are read again on each retry`,
  ],
  [/^HTTP 403/, () => 'bind the role system:node-proxier to this user'],
  [
    /ENOTFOUND|EAI_AGAIN/,
    () => 'this node cannot resolve the name: use an IP address, or fix its DNS',
  ],
  [/ECONNREFUSED/, () => 'check that the server is running and the port is correct'],
  [
    /Connect Timeout|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|no answer in time/,
    () => 'no reply: check the address, and firewalls between this node and the server',
  ],
  [
    /certificate has expired/,
    ({ credentials }) => `renew the server's certificate, or the CA in ${credentials}`,
  ],
  [
    /unable to verify|self-signed certificate|unable to get (local )?issuer|signature failure/,
    ({ credentials }) =>
      `the CA in ${credentials} did not sign the server certificate: use the CA that did`,
  ],
  [
    /does not match certificate/,
    () => 'use a name or address of its certificate, or set tls-server-name in the kubeconfig',
  ],
];
