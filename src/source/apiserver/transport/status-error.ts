// SPDX-License-Identifier: Apache-2.0
// An answer that is no 2xx -> ApiError: the message of its metav1.Status, and when to come back.
import { isRecord, recordOrEmpty } from '../../../lib/json.ts';
import { ApiError } from '../watch/watch-error.ts';

const MAX_BYTES = 64 * 1024;

/** Reads at most 64 KiB of the body; never throws for what is in it. */
export async function statusError(
  status: number,
  retryAfter: string | string[] | undefined,
  body: AsyncIterable<Uint8Array>,
): Promise<ApiError> {
  const text = await shortText(body);
  const answer = recordOrEmpty(parsed(text));
  const { message, details } = answer;
  const { retryAfterSeconds, causes } = recordOrEmpty(details);
  const said = typeof message === 'string' ? message : text.slice(0, 200).trim();
  const fromBody = typeof retryAfterSeconds === 'number' ? retryAfterSeconds * 1000 : 0;
  return new ApiError(`HTTP ${status}${said === '' ? '' : `: ${said}`}`, {
    status,
    retryAfterMs: Math.max(fromBody, headerMs(retryAfter)),
    isTooLargeVersion:
      (Array.isArray(causes) &&
        causes.some(
          (cause: unknown) => isRecord(cause) && cause['reason'] === 'ResourceVersionTooLarge',
        )) ||
      said.includes('Too large resource version'),
  });
}

async function shortText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes >= MAX_BYTES) break;
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Seconds, or a date (RFC 9110 section 10.2.3). */
function headerMs(value: string | string[] | undefined): number {
  const text = Array.isArray(value) ? value[0] : value;
  if (text === undefined) return 0;
  if (/^\d+$/.test(text.trim())) return Number(text) * 1000;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? 0 : Math.max(0, atMs - Date.now());
}
