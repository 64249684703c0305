// SPDX-License-Identifier: Apache-2.0
// A dataplane that serves nothing and changes nothing: the agent plans as if it served. What it would do is compared
// with the rules of another proxy in src/instance/shadow.
import { SHADOW } from '../capabilities.ts';
import type { Dataplane, SyncReport } from '../dataplane.ts';

const NOTHING: SyncReport = { applied: 0, failed: [], elapsedMs: 0 };

export const createShadowDataplane = (): Dataplane => ({
  capabilities: SHADOW,
  installation: { hooks: [], refusesWith: 'ECONNREFUSED', refused: [] },
  sync: async () => NOTHING,
  audit: async () => ({ drift: [], report: NOTHING }),
  held: async () => [],
  snapshot: async () => ({ frontends: [], backends: [] }),
  counters: () => ({ tables: [], outcomes: {}, connections: [] }),
  onRoom: () => undefined,
  close: () => undefined,
});
