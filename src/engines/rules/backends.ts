// SPDX-License-Identifier: Apache-2.0
// The backends that rules name.
import type { BackendView, FrontendView } from '../snapshot.ts';

/** Each backend once for each Service port. Rules know no terminating ones: conntrack has their connections. */
export function backendViews(frontends: readonly FrontendView[]): readonly BackendView[] {
  const views = new Map<string, BackendView>();
  for (const { dataplane, port, internal, external } of frontends) {
    for (const backend of [...internal, ...external]) {
      views.set(`${JSON.stringify(port)} ${backend}`, {
        ...{ dataplane, backend, port, state: 'active' },
      });
    }
  }
  return [...views.values()];
}
