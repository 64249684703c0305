// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane over kernel maps: the selection program, run as each client, follows the plan and reaches
// every backend it may select.
import { afterAll, expect } from 'vitest';
import { kernelTables } from '../../../src/engines/bpf/kernel/maps/kernel.ts';
import { followNode } from '../../../src/engines/bpf/node-map.ts';
import { BPF, bpfCapabilities, type Capabilities } from '../../../src/engines/capabilities.ts';
import { familyOf } from '../../../src/lib/ip.ts';
import type { ClientPosition } from '../../../src/plan/types.ts';
import {
  type Answer,
  type Asked,
  type Subject,
  testConformance,
} from '../../conformance/conformance.ts';
import { answerOfTables } from '../../conformance/subjects/bpf-tables.ts';
import { programTables } from '../../conformance/subjects/program-tables.ts';
import { type Choice, Drive } from './support/drive.ts';

const VERDICTS = { leave: 'none', translate: 'forward', refuse: 'reject', drop: 'drop' } as const;
/** With two backends, chance misses one of them throughout so many runs with probability 2^-200. */
const MAX_RUNS = 200;

/**
 * Each run of a socket is another client, so that session affinity does not keep them all on one backend; packets
 * have the source that the story names, and affinity is forgotten instead.
 */
function choose(drive: Drive, { packet, position, isPacket }: Asked, run: number): Choice {
  const isIpv4 = familyOf(packet.source) === 'IPv4';
  const client = isIpv4 ? `198.18.0.${run}` : `2001:db8:ffff::${run}`;
  if (isPacket) drive.forgetAffinity();
  return drive.select({
    to: packet.destination,
    port: packet.destinationPort,
    protocol: packet.protocol,
    position,
    source: isPacket ? packet.source : client,
    sourcePort: isPacket ? 1024 + run : 0,
    isPacket,
  });
}

/** Runs until every backend in the tables was selected; fails if one that is not in them is. */
function answerOfKernel(drive: Drive, offered: Answer, asked: Asked): Answer {
  const chosen = new Set<string>();
  let last = choose(drive, asked, 1);
  for (let run = 2; last.verdict === 'translate' && run <= MAX_RUNS; run += 1) {
    expect(offered.backends).toContain(last.backend);
    const isKept = offered.keepingClient.includes(last.backend);
    expect(last.masquerade, last.backend).toBe(offered.masquerade && !isKept);
    chosen.add(last.backend);
    if (chosen.size === offered.backends.length) break;
    last = choose(drive, asked, run);
  }
  return {
    verdict: VERDICTS[last.verdict],
    backends: [...chosen],
    masquerade: last.verdict === 'translate' && offered.masquerade,
    keepingClient: offered.keepingClient,
  };
}

/** Each story reads the whole arrays when it adopts what the one before has programmed: no story needs more. */
const ELEMENTS = 1024;
const ARRAYS = ['frontend', 'slot_block', 'backend4', 'backend6', 'fe_stat', 'be_stat'];

/** Loaded once: each story adopts and removes what the previous one has programmed. */
const drive = new Drive(Object.fromEntries(ARRAYS.map((name) => [`fl_${name}`, ELEMENTS])));
const tables = kernelTables((name) => drive.object.map(name));
afterAll(() => drive.close());

/** Sockets of the node that are not bound have its address. */
function withNode<T extends Pick<Subject, 'sync'>>(subject: T): T {
  const followed = followNode(drive.object.map('fl_node'));
  return {
    ...subject,
    sync: (plan) => {
      followed(plan.node);
      return subject.sync(plan);
    },
  };
}

const overKernel = (capabilities: Capabilities) => ({
  capabilities,
  open: () => ({
    ...withNode(programTables(tables, capabilities)),
    answer: (asked: Asked) =>
      answerOfKernel(drive, answerOfTables(tables, asked.packet, asked.position), asked),
    positionOf: (source: string) => drive.positionOf(source) as ClientPosition,
  }),
});

testConformance('kernel', overKernel(BPF));
testConformance('kernel, with packets', overKernel(bpfCapabilities({ packets: true })));
