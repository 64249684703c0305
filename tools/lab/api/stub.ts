// SPDX-License-Identifier: Apache-2.0
// The driver's side of stub-server.ts.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Kind, ObjectChange } from '../../../src/model/types.ts';
import { startLines } from '../lines.ts';
import { type Sandbox, toolPath } from '../sandbox.ts';

const PORT = 6443;

export interface StubApi {
  readonly kubeconfig: string;
  change(changes: readonly ObjectChange[]): Promise<void>;
  /** Lists and watches of this kind are not answered until the next call. */
  hold(kind: Kind | null): Promise<void>;
  /** All that were posted, as `reason: note`. */
  events(): Promise<readonly string[]>;
  stop(): Promise<void>;
}

/** Serves at this address and port of the sandbox's namespace; `directory` gets the kubeconfig. */
export async function startStubApi(
  sandbox: Sandbox,
  address: string,
  directory: string,
  port = PORT,
): Promise<StubApi> {
  const program = await startLines(sandbox, [
    ...[process.execPath, toolPath('lab/stub-server.js'), address, String(port)],
  ]);
  const kubeconfig = join(directory, 'kubeconfig');
  writeFileSync(kubeconfig, kubeconfigText(`http://${address}:${port}`));
  return {
    kubeconfig,
    change: async (changes) => {
      const put = changes.flatMap((change) => (change.type === 'put' ? [change.object] : []));
      const remove = changes.flatMap(({ type, ref }) =>
        type === 'remove' ? [`${ref.kind} ${ref.namespace}/${ref.name}`] : [],
      );
      await program.exchange(JSON.stringify({ put, remove }));
    },
    hold: async (hold) => void (await program.exchange(JSON.stringify({ hold }))),
    events: async () => {
      const posted = JSON.parse(await program.exchange(JSON.stringify({ events: true })));
      return posted.map(({ reason, note }: PostedEvent) => `${reason}: ${note}`);
    },
    stop: () => program.stop(),
  };
}

interface PostedEvent {
  readonly reason: string;
  readonly note: string;
}

const kubeconfigText = (server: string): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'stub', cluster: { server } }],
    users: [{ name: 'proxy', user: { token: 'none' } }],
    contexts: [{ name: 'stub', context: { cluster: 'stub', user: 'proxy' } }],
    'current-context': 'stub',
  });
