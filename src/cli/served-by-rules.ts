// SPDX-License-Identifier: Apache-2.0
// Commands that read pinned maps: where an agent serves by rules alone there are none, which is no mistake in
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
    const engine = isMissing ? await rulesOf(runDir) : undefined;
    if (engine === undefined) throw error;
    throw new FairleadError(
      'NOT_FOUND',
      `Services are served by ${engine} on this node${consequence}`,
    );
  }
}

/** The engine that serves by rules alone; undefined: none, no agent answers, or none that has started. */
async function rulesOf(runDir: string): Promise<string | undefined> {
  const status = await askAgent(runDir, '/v1/status').catch(() => undefined);
  const { dataplanes } = recordOrEmpty(status);
  const engine = Array.isArray(dataplanes) ? dataplanes.join() : '';
  return ['iptables', 'nftables'].includes(engine) ? engine : undefined;
}
