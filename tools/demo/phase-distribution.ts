// SPDX-License-Identifier: Apache-2.0
// Phases 1 and 2: even distribution over backends, and session affinity.

import type { Target } from '../lab/client/protocol.ts';
import { type BackendName, type Distribution, judgeDistribution } from './distribution.ts';
import { bar, type Screen } from './screen.ts';
import { DNS_PODS, type ServiceName, WEB_PODS } from './services.ts';
import { mainClient, type PhaseResult, podsNamed, type Stage, serviceTarget } from './stage.ts';

const SAMPLE = 3000;
const SECOND_SAMPLE = 9000;
const AFFINITY_SAMPLE = 300;
const BAR_WIDTH = 24;

export async function showDistribution(stage: Stage): Promise<PhaseResult[]> {
  stage.screen.line(stage.screen.strong('1  New connections are distributed evenly over backends'));
  return [
    await distribute(stage, 'web', 'IPv4', WEB_PODS.slice(0, 5)),
    await distribute(stage, 'web', 'IPv6', WEB_PODS.slice(0, 5)),
    await distribute(stage, 'dns', 'IPv4', DNS_PODS),
  ];
}

async function distribute(
  stage: Stage,
  service: ServiceName,
  family: 'IPv4' | 'IPv6',
  names: readonly string[],
): Promise<PhaseResult> {
  const target = serviceTarget(stage, service, family);
  const { slicePort } = stage.examples.services[service];
  const backends = podsNamed(stage, names).map((pod) => {
    const address = family === 'IPv4' ? pod.ipv4 : `[${pod.ipv6}]`;
    return { pod: pod.name, address: `${address}:${slicePort.port}` };
  });
  const first = await sample(stage, target, backends, SAMPLE);
  // A row outside 3 sigma is rare but possible: repeat with a larger sample, and show both.
  const isOdd = first.rows.some(({ isInside }) => !isInside);
  if (isOdd) stage.screen.line('  a row is outside 3σ: repeating with a larger sample');
  const second = isOdd ? [await sample(stage, target, backends, SECOND_SAMPLE)] : [];
  const samples = [first, ...second];
  return {
    name: `distribution ${service} ${target.protocol} ${family}`,
    isOk: samples.every(({ isEven }) => isEven),
    connections: samples.reduce((sum, { answered, failures }) => sum + answered + failures, 0),
    failures: samples.reduce((sum, { failures }) => sum + failures, 0),
    facts: { samples },
  };
}

async function sample(
  stage: Stage,
  target: Target,
  backends: readonly BackendName[],
  connections: number,
): Promise<Distribution> {
  const { screen } = stage;
  const host = target.address.includes(':') ? `[${target.address}]` : target.address;
  const progress = screen.progress(`${target.protocol} to ${host}:${target.port}`, connections);
  const tally = await mainClient(stage).burst(target, { connections, onProgress: progress.show });
  progress.end(tally.connections);
  const distribution = judgeDistribution(tally, backends);
  showRows(screen, distribution);
  showVerdict(screen, distribution, connections / (tally.elapsedMs / 1000));
  return distribution;
}

function showRows(screen: Screen, { rows }: Distribution): void {
  const largest = Math.max(...rows.map(({ hits }) => hits), 1);
  const header = ['BACKEND', 'POD', 'HITS', 'SHARE', 'EXPECTED', '± 3σ', '', ''];
  screen.table(
    header,
    rows.map((row) => [
      ...[row.address, row.pod, String(row.hits), `${(row.share * 100).toFixed(1)} %`],
      ...[row.expectedHits.toFixed(0), row.threeSigmaHits.toFixed(0)],
      bar(row.hits / largest, BAR_WIDTH),
      row.isInside ? screen.good('ok') : screen.bad('outside'),
    ]),
  );
}

function showVerdict(screen: Screen, sampled: Distribution, perSecond: number): void {
  const { chiSquare, degreesOfFreedom, pValue, isEven, failures, unknownServers } = sampled;
  const p = pValue < 0.001 ? pValue.toExponential(1) : pValue.toFixed(3);
  const test = `chi-square ${chiSquare.toFixed(2)}, ${degreesOfFreedom} degrees of freedom, p = ${p}`;
  const wrong = unknownServers.length === 0 ? '' : `, answers from ${unknownServers.join(', ')}`;
  const verdict = isEven ? screen.good('even') : screen.bad(`NOT even${wrong}`);
  screen.line(`  ${verdict}: ${test}; ${failures} failed; ${perSecond.toFixed(0)} connections/s`);
  screen.line();
}

/** Each client pod connects to the same address and must always get the same backend. */
export async function showAffinity(stage: Stage): Promise<PhaseResult> {
  const { screen } = stage;
  screen.line(screen.strong('2  With sessionAffinity: ClientIP a client keeps its backend'));
  const target = serviceTarget(stage, 'cart');
  const choices: string[][] = [];
  let failures = 0;
  for (const client of stage.clients) {
    const tally = await client.burst(target, { connections: AFFINITY_SAMPLE });
    const pods = Object.keys(tally.hits);
    const failed = Object.values(tally.failures).reduce((sum, count) => sum + count, 0);
    choices.push(pods);
    failures += failed;
    const mark = pods.length === 1 && failed === 0 ? screen.good('ok') : screen.bad('wrong');
    const answered = `${tally.connections - failed} of ${tally.connections} connections`;
    screen.line(`  ${client.sandbox.name}: ${answered} served by ${pods.join(', ')}  ${mark}`);
  }
  screen.line();
  const isOk = failures === 0 && choices.every(({ length }) => length === 1);
  const connections = AFFINITY_SAMPLE * stage.clients.length;
  return { name: 'affinity', isOk, connections, failures, facts: { choices } };
}
