// SPDX-License-Identifier: Apache-2.0
// The stories as a conformance suite: each is run against a dataplane, and after every step each client must get
// what the story says. A dataplane is correct if this suite passes; what it does not support is a golden file, so
// that every change of it is seen.

import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Capabilities, keepsLocalClient, servedBy } from '../../src/engines/capabilities.ts';
import { limitationsOf } from '../../src/engines/limitations.ts';
import { hostPort } from '../../src/lib/address-bytes.ts';
import { familyOf, isLoopback } from '../../src/lib/ip.ts';
import { CLIENT_POSITIONS } from '../../src/plan/decide/traffic-rules.ts';
import { type Client, clientOf } from '../../src/plan/explain/client.ts';
import type { Explanation } from '../../src/plan/explain/explanation.ts';
import { matchDestination } from '../../src/plan/explain/match.ts';
import type { Packet } from '../../src/plan/explain/packet.ts';
import type { ClientPosition, Plan } from '../../src/plan/types.ts';
import { createPlanner } from '../support/plan/planner.ts';
import { type Expectation, expectationOf, readStories, type Story } from './story.ts';

/** The result of a new connection. */
export interface Answer extends Pick<Explanation, 'verdict' | 'masquerade'> {
  /** All backends it may get. */
  readonly backends: readonly string[];
  /** Those that see the address of the client although it is masqueraded for others. */
  readonly keepingClient: readonly string[];
}

/** A new connection, of a socket or as packets: then its source decides, too. */
export interface Asked {
  readonly packet: Packet;
  readonly position: ClientPosition;
  readonly isPacket: boolean;
}

/** A dataplane with its own state, used by nothing else. */
export interface Subject {
  /** Programs what a step changed, as the agent would. */
  sync(plan: Plan): Promise<void>;
  answer(asked: Asked): Answer;
  /** Of the sender of a packet that comes in, by its address; absent: each frontend decides by itself. */
  positionOf?(source: string): ClientPosition;
  /** Its answer includes what drops packets to loopback addresses of this node; the BPF programs drop those before they ask the tables. */
  readonly hasMartianGuard?: true;
  close(): void;
}

export interface DataplaneUnderTest {
  readonly capabilities: Capabilities;
  open(): Subject;
}

export const STORIES = [
  'clusterip.yaml',
  'endpoints.yaml',
  'policies.yaml',
  'balancing.yaml',
  'exposure.yaml',
] as const;

/** One test per story, and one for what the dataplane does not serve. */
export function testConformance(name: string, dataplane: DataplaneUnderTest): void {
  const notServed: string[] = [];
  for (const file of STORIES) {
    for (const story of readStories(file)) {
      test(`${name}: ${file} ${story.name}`, async () => {
        for (const line of await play(story, dataplane)) {
          notServed.push(`${file} ${story.case}: ${line}`);
        }
      });
    }
  }
  test(`${name}: what it does not serve`, async () => {
    const { capabilities } = dataplane;
    const packets = hasPackets(capabilities) ? '' : '-without-packets';
    const name = `${capabilities.dataplane}${packets}.txt`;
    const golden = join(import.meta.dirname, 'not-served', name);
    await expect(`${notServed.join('\n')}\n`).toMatchFileSnapshot(golden);
  });
}

const hasPackets = ({ serves }: Capabilities): boolean => serves.outside !== undefined;

/** @returns expectations that this dataplane need not meet, each with the reason */
async function play(story: Story, dataplane: DataplaneUnderTest): Promise<readonly string[]> {
  const planner = createPlanner(story.settings);
  const subject = dataplane.open();
  const notServed: string[] = [];
  try {
    for (const step of story.steps) {
      const { plan } = planner.apply(step.changes);
      await subject.sync(plan);
      for (const line of step.expect ?? []) {
        const reason = check(line, plan, subject, dataplane.capabilities);
        if (reason !== undefined) notServed.push(`${line}: ${reason}`);
      }
    }
  } finally {
    subject.close();
  }
  return notServed;
}

function check(
  line: string,
  plan: Plan,
  subject: Subject,
  capabilities: Capabilities,
): string | undefined {
  const expected = expectationOf(line);
  const client = clientOf(plan, expected.packet);
  if (isMartian(expected.packet, client) && subject.hasMartianGuard !== true)
    return 'loopback is no address of another';
  const reason = limitOf(plan, expected.packet, client, capabilities);
  if (reason !== undefined) return reason;
  const silent = isMartian(expected.packet, client)
    ? undefined
    : silenceOf(plan, expected.packet, capabilities);
  if (silent !== undefined) {
    const answer = subject.answer({ ...expected, position: client.position, isPacket: false });
    expect(answer.verdict, `${line}: ${silent}`).toBe('none');
    return silent;
  }
  for (const isPacket of waysOf(plan, expected.packet, client, capabilities)) {
    const answer = subject.answer({ ...expected, position: client.position, isPacket });
    const met = {
      ...answer,
      backends: answer.backends.toSorted(),
      keepingClient: answer.keepingClient.toSorted(),
    };
    expect(met, `${line}, ${isPacket ? 'packets' : 'a socket'}`).toEqual({
      verdict: expected.verdict,
      backends: expected.backends.toSorted(),
      masquerade: isHairpin(expected) ? met.masquerade : expected.masquerade,
      keepingClient: keepingClient(plan, expected, capabilities),
    });
    if (isPacket) checkPosition(plan, expected.packet, client, subject);
  }
  return undefined;
}

/**
 * How the client's connection can meet the dataplane, as packets (true) or at a socket (false). A pod's is tried as
 * both, unless its sockets are left to the packet path; without one the tables must answer for every client.
 */
function waysOf(
  plan: Plan,
  packet: Packet,
  { servedAs: position }: Client,
  capabilities: Capabilities,
): readonly boolean[] {
  if (!hasPackets(capabilities) || position === 'host') return [false];
  if (position === 'outside') return [true];
  const match = matchDestination(plan, packet);
  const isLeft =
    packet.protocol === 'SCTP' || (match.kind === 'frontend' && match.frontend.isFiltered === true);
  return isLeft ? [true] : [false, true];
}

/** A detector of interfaces is a property of the device, not of the address. */
function checkPosition(plan: Plan, { source }: Packet, client: Client, subject: Subject): void {
  const detector = plan.detector[familyOf(source)];
  if (detector !== undefined && detector.kind !== 'cidr') return;
  if (subject.positionOf === undefined) return;
  expect(subject.positionOf(source), source).toBe(client.position);
}

/** By the plan: masqueraded, but not for the backends of this node. */
function keepingClient(
  plan: Plan,
  { packet, backends, masquerade }: Expectation,
  capabilities: Capabilities,
): readonly string[] {
  const match = matchDestination(plan, packet);
  if (match.kind !== 'frontend' || !masquerade || !keepsLocalClient(capabilities, match.frontend))
    return [];
  const local = new Set(
    [...match.port.cluster, ...match.port.local]
      .filter(({ isLocal }) => isLocal)
      .map(({ address, port }) => hostPort(address, port)),
  );
  return backends.filter((backend) => local.has(backend)).toSorted();
}

/** A pod that reaches itself is masqueraded by the packet path, whatever the traffic rule says. */
const isHairpin = ({ packet, backends }: Expectation): boolean =>
  backends.some((backend) => backend.startsWith(`${packet.source}:`)) && backends.length === 1;

const isMartian = ({ destination }: Packet, { position }: Client): boolean =>
  isLoopback(destination) && position !== 'host';

/** Why nothing answers at a loopback address; undefined: it is served there. */
function silenceOf(plan: Plan, packet: Packet, capabilities: Capabilities): string | undefined {
  if (!isLoopback(packet.destination) || matchDestination(plan, packet).kind !== 'frontend')
    return undefined;
  return limitationsOf(capabilities).find(({ code }) => code === 'LOOPBACK')?.reason;
}

/** Why this dataplane does not serve the packet; its tables are checked even for packets it does not see. */
function limitOf(
  plan: Plan,
  packet: Packet,
  client: Client,
  capabilities: Capabilities,
): string | undefined {
  const position = client.servedAs;
  const match = matchDestination(plan, packet);
  if (match.kind !== 'frontend') return undefined;
  // What is programmed for other clients is checked for those as well that this dataplane does not see.
  const reasons = [position, ...CLIENT_POSITIONS].map(
    (one) => servedBy([capabilities], match.port, match.frontend, one).limitations,
  );
  const own = reasons.find((limitations) => limitations.every(({ code }) => code !== 'ORIGIN'));
  return own?.[0]?.reason;
}
