// SPDX-License-Identifier: Apache-2.0
// What an agent without anything to tell tells its metrics.
import type { AgentReaders } from '../../../src/server/metrics/readings.ts';

export const agentReaders = (over: Partial<AgentReaders> = {}): AgentReaders => ({
  version: '1.2.3',
  engine: () => undefined,
  limitations: () => [],
  findings: () => [],
  fallback: () => undefined,
  shadow: () => undefined,
  history: () => undefined,
  isReady: () => false,
  plan: () => undefined,
  sourceProblems: () => [],
  tables: () => [],
  failedEntries: () => 0,
  driftTotal: () => 0,
  lastAuditAt: () => undefined,
  watchAgesMs: () => ({}),
  reasons: () => ({}),
  staleSockets: () => undefined,
  earlyPaths: () => [],
  serviceConnections: () => [],
  serviceTraffic: () => [],
  topServices: 0,
  ...over,
});
