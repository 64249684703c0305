// SPDX-License-Identifier: Apache-2.0
// Commands that read pinned maps: where an agent serves by iptables rules alone there are none, which is no mistake in
// --bpf-root. Only the agent knows, so it is asked when they are not found.
import { FairleadError } from '../errors.ts';
import { recordOrEmpty } from '../lib/json.ts';
import { askAgent } from '../server/admin-socket.ts';

/** @param consequence follows "Services are served by iptables on this node". Throws what `open` throws, NOT_FOUND. */
export async function fromMaps<T>(
  { runDir }: { readonly runDir: string },
  consequence: string,
  open: () => T,
): Promise<T> {
  try {
    return open();
  } catch (error) {
    const isMissing = error instanceof FairleadError && error.code === 'NOT_FOUND';
    if (!isMissing || !(await isServedByRules(runDir))) throw error;
    throw new FairleadError(
      'NOT_FOUND',
      `Services are served by iptables on this node${consequence}`,
    );
  }
}

/** False if no agent answers, or none that has started. */
async function isServedByRules(runDir: string): Promise<boolean> {
  const status = await askAgent(runDir, '/v1/status').catch(() => undefined);
  const { dataplanes } = recordOrEmpty(status);
  return Array.isArray(dataplanes) && dataplanes.join() === 'iptables';
}
