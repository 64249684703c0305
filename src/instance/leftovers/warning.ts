// SPDX-License-Identifier: Apache-2.0
// The line of `fairlead status` about what kube-proxy has left.

import { leftoversText } from '../../engines/kube-proxy/leftover.ts';
import { run } from '../../sys/exec.ts';
import { findServingKubeProxy } from '../preflight/other-proxies.ts';
import { ENDLESS } from './read.ts';
import { scanLeftovers } from './scan.ts';

/** Listing the rules of ten thousand Services takes a second: not at every line of `status --watch`. */
const RESCAN_MS = 30_000;
/** Of all programs together. */
const DEADLINE_MS = 10_000;

/** undefined: nothing is left, kube-proxy serves this node, or this process may not look. */
export function createLeftoverWarning(): () => Promise<string | undefined> {
  let last: { readonly atMs: number; readonly text: string | undefined } | undefined;
  return async () => {
    if (last === undefined || performance.now() - last.atMs > RESCAN_MS) {
      last = { text: await warning().catch(() => undefined), atMs: performance.now() };
    }
    return last.text;
  };
}

async function warning(): Promise<string | undefined> {
  const deadlineMs = performance.now() + DEADLINE_MS;
  const { leftovers, unread } = await scanLeftovers((program, args, options) =>
    run(program, args, { ...options, timeoutMs: Math.max(1, deadlineMs - performance.now()) }),
  );
  const endless = unread.find((reason) => reason.endsWith(ENDLESS));
  if (endless !== undefined) return `not looked for what kube-proxy has left: ${endless}`;
  if (leftovers.length === 0 || (await findServingKubeProxy()).length > 0) return undefined;
  return `kube-proxy has left ${leftoversText(leftovers)}: list them with \`fairlead cleanup --kube-proxy --dry-run\`, remove them without --dry-run`;
}
