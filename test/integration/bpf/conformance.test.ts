// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane over kernel maps: the selection program, run as each client, follows the plan and reaches
// every backend it may select.
import { afterAll, expect } from 'vitest';
import { kernelTables } from '../../../src/dataplane/bpf/maps/kernel.ts';
import { BPF } from '../../../src/dataplane/capabilities.ts';
import { familyOf } from '../../../src/lib/ip.ts';
import type { Packet } from '../../../src/plan/explain/packet.ts';
import type { ClientPosition } from '../../../src/plan/types.ts';
import { answerOfTables } from '../../conformance/bpf-tables.ts';
import { type Answer, testConformance } from '../../conformance/conformance.ts';
import { programTables } from '../../conformance/program-tables.ts';
import { type Choice, Drive } from './support/drive.ts';

const VERDICTS = { leave: 'none', translate: 'forward', refuse: 'reject', drop: 'drop' } as const;
/** With two backends, chance misses one of them throughout so many runs with probability 2^-200. */
const MAX_RUNS = 200;

/** Each run is another client, so that session affinity does not keep them all on one backend. */
function choose(drive: Drive, packet: Packet, position: ClientPosition, run: number): Choice {
  const source = familyOf(packet.source) === 'IPv4' ? `198.18.0.${run}` : `2001:db8:ffff::${run}`;
  return drive.select({
    to: packet.destination,
    port: packet.destinationPort,
    protocol: packet.protocol,
    position,
    source,
  });
}

/** Runs until every backend in the tables was selected; fails if one that is not in them is. */
function answerOfKernel(
  drive: Drive,
  offered: Answer,
  packet: Packet,
  position: ClientPosition,
): Answer {
  const chosen = new Set<string>();
  let last = choose(drive, packet, position, 1);
  for (let run = 2; last.verdict === 'translate' && run <= MAX_RUNS; run += 1) {
    expect(offered.backends).toContain(last.backend);
    const isKept = offered.keepingClient.includes(last.backend);
    expect(last.masquerade, last.backend).toBe(offered.masquerade && !isKept);
    chosen.add(last.backend);
    if (chosen.size === offered.backends.length) break;
    last = choose(drive, packet, position, run);
  }
  return {
    verdict: VERDICTS[last.verdict],
    backends: [...chosen],
    masquerade: last.verdict === 'translate' && offered.masquerade,
    keepingClient: offered.keepingClient,
  };
}

/** Loaded once: each story adopts and removes what the previous one has programmed. */
const drive = new Drive();
const tables = kernelTables((name) => drive.object.map(name));
afterAll(() => drive.close());

testConformance('kernel', {
  capabilities: BPF,
  open: () => ({
    ...programTables(tables),
    answer: (packet, position) =>
      answerOfKernel(drive, answerOfTables(tables, packet, position), packet, position),
  }),
});
