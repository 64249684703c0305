// SPDX-License-Identifier: Apache-2.0
// Every wait and size of the reflector, named once.

export const LIMITS = {
  /** Objects per LIST page: what client-go's pager asks for (KEP-365). */
  pageItems: 500,
  /** A peer that accepts and never answers is given up after this. */
  headersTimeoutMs: 30_000,
  /** A list body that stops flowing is given up after this. */
  listSilenceMs: 30_000,
  /** The server ends each watch within this range: spreads reconnects of many nodes. */
  watchLifeMinSeconds: 300,
  watchLifeMaxSeconds: 600,
  /** The server sends a bookmark about once a minute: two missed ones mean nobody is there. */
  watchSilenceMs: 120_000,
  /** Initial events (KEP-3157) that stop flowing without their end mark are given up after this ... */
  initialSilenceMs: 10_000,
  /** ... and after this although they flow: a server that ignores the parameter never sends the mark. */
  initialLongestMs: 60_000,
  /** A stream that lived this long and ended cleanly is opened again at once. */
  shortLifeMs: 5_000,
  /** A stream that lived this long proves the server healthy even if nothing happened. */
  healthyMs: 120_000,
  /** Asking who answers after an outage holds watches up no longer than this ... */
  identityTimeoutMs: 5_000,
  /** ... is repeated at the pace of a probe after this many refusals, and then ever more slowly ... */
  identityProbes: 12,
  /** ... and is given up after this many refusals in a row. */
  identityTries: 24,
  /** A server that does not answer is asked at least this often, unless the cluster is very large. */
  probeMs: 1_000,
  /** Nodes that lost the same server return to it within this time for each of them ... */
  spreadMsPerNode: 1,
  /** ... and within this at the latest. */
  spreadMaxMs: 15_000,
  /** A cluster of which the number of Nodes is not known is taken to have this many. */
  unknownNodes: 1_000,
  /** The number of Nodes is asked for within this time after the start, and this often. */
  nodeCountFirstMs: 60_000,
  nodeCountMs: 3_600_000,
  /** Pause before a suspicious list is asked to confirm itself. */
  confirmDelayMs: 10_000,
  /** Stores of at most this many objects may lose all of them at once without suspicion. */
  suspiciousAbove: 3,
  /** Kinds that the server may lack are asked for again after this. */
  absentRetryMs: 600_000,
  /** How long the first sync waits for this node's Node. */
  nodeWaitMs: 30_000,
  /** As client-go's reflector. */
  backoff: { firstMs: 800, maxMs: 30_000, leastMs: 100, jitter: 'full' },
  /** A Retry-After longer than this is cut: nobody should silence a node for an hour. */
  retryAfterMaxMs: 120_000,
  /** etcd refuses objects over 1.5 MiB; what is larger than this is no API object. */
  objectBytes: 16 * 1024 * 1024,
  /** Time that one stream works before everything else gets a turn. */
  workMs: 5,
  /** Changes given to the handler in one turn of the event loop. */
  batchChanges: 250,
} as const;
