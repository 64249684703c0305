// SPDX-License-Identifier: Apache-2.0
// A server that refuses credentials never says why: that they have expired can be seen in themselves.
import { X509Certificate } from 'node:crypto';
import type { Access } from './credentials.ts';

/** Why a server may refuse this access, as far as it can be seen from here. */
export function expiryOf({ tls, headers }: Access, now: Date): string | undefined {
  const isOver = (at: Date): boolean => at.getTime() < now.getTime();
  if (tls.cert !== undefined) {
    const at = new Date(new X509Certificate(tls.cert).validTo);
    if (isOver(at)) return `the client certificate expired at ${at.toISOString()}`;
  }
  const at = tokenExpiry(headers['authorization'] ?? '');
  if (at !== undefined && isOver(at)) return `the token expired at ${at.toISOString()}`;
  return undefined;
}

/** Service account tokens are JWTs and say so themselves; other tokens say nothing. */
function tokenExpiry(authorization: string): Date | undefined {
  const [, claims = ''] = authorization.split('.');
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'));
    return typeof exp === 'number' ? new Date(exp * 1000) : undefined;
  } catch {
    return undefined;
  }
}
