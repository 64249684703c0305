// SPDX-License-Identifier: Apache-2.0
// The file with the secrets of direct return: the first line is what this node sends, and requests with a cookie of either line are
// taken. The word `none` in place of a secret means requests without a cookie, so that the first secret comes, and the last one
// goes, as any is rotated.
//   none        a secret is coming: it is taken, and not sent yet
//   5f0c…
import { createHash } from 'node:crypto';
import type { CookieView } from '../../../snapshot.ts';
import type { Cookies } from '../direct-layout.ts';

/** `value` is undefined if nobody needs a cookie. */
export type SecretsRead =
  | { readonly ok: true; readonly value: Cookies | undefined }
  | { readonly ok: false; readonly reason: string };

const NONE = 'none';
const MAX_LINES = 2;
/** 128 bits in hexadecimal digits. */
const LEAST_LENGTH = 32;

/** Reasons never have a secret in them. */
export function readSecrets(text: string): SecretsRead {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const reason = reasonAgainst(lines);
  if (reason !== undefined) return { ok: false, reason };
  const keys = lines.filter((line) => line !== NONE).map(keyOf);
  if (keys.length === 0) return { ok: true, value: undefined };
  const value = { keys, isSent: lines[0] !== NONE, takesNone: lines.includes(NONE) };
  return { ok: true, value };
}

function reasonAgainst(lines: readonly string[]): string | undefined {
  if (lines.length === 0) return 'it has no line';
  if (lines.length > MAX_LINES) return `it has ${lines.length} lines, at most ${MAX_LINES}`;
  if (new Set(lines).size < lines.length) return 'its lines are the same';
  const short = lines.findIndex((line) => line !== NONE && line.length < LEAST_LENGTH);
  return short === -1
    ? undefined
    : `line ${short + 1} is neither ${NONE} nor a secret of ${LEAST_LENGTH} characters or more`;
}

const hash = (purpose: string, bytes: string | Uint8Array): Buffer =>
  createHash('sha256').update(`fairlead direct return ${purpose}\n`).update(bytes).digest();

const keyOf = (secret: string): Uint8Array => Uint8Array.from(hash('key', secret).subarray(0, 16));

/** Tells secrets apart, and tells nothing of them. */
const fingerprintOf = (key: Uint8Array): string =>
  hash('fingerprint', key).toString('hex').slice(0, 8);

export function viewOf(cookies: Cookies | undefined): CookieView {
  const { keys = [], isSent = false, takesNone = true } = cookies ?? {};
  const taken = keys.map(fingerprintOf);
  const [first = NONE] = isSent ? taken : [];
  return { sent: first, taken: takesNone ? [...taken, NONE] : taken };
}
