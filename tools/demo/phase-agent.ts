// SPDX-License-Identifier: Apache-2.0
// Phases 5 to 7: the agent is killed and restarted without a failed connection; a Service without endpoints
// refuses connections at once; cleanup removes fairlead from the node.
import { ownPaths, runCommand, startAgent } from '../lab/agent.ts';
import { ms, result, showLoad } from './phase-change.ts';
import { awaitMore, mainClient, type PhaseResult, type Stage, serviceTarget } from './stage.ts';

/** Connections without an agent before it is restarted: about a second. */
const WITHOUT_AGENT = 1000;
const BEFORE_AND_AFTER = 500;

export async function showAgentDeath(stage: Stage): Promise<PhaseResult> {
  const { screen } = stage;
  screen.line(screen.strong('5  The agent is killed (SIGKILL) under traffic'));
  const load = await mainClient(stage).startLoad(serviceTarget(stage, 'web'));
  await awaitMore(load, BEFORE_AND_AFTER);
  await stage.agent.kill();
  const before = (await load.read()).connections;
  const alone = await awaitMore(load, WITHOUT_AGENT);
  const carried = (alone?.connections ?? before) - before;
  screen.line(`  no agent: ${carried} more connections served by the kernel`);
  stage.agent = await startAgent(stage.instance);
  const { readyAfterMs } = stage.agent;
  await awaitMore(load, BEFORE_AND_AFTER);
  screen.line(`  restarted: in sync after ${ms(readyAfterMs)}`);
  const report = await load.stop();
  const isOk = alone !== undefined && report.failureCount === 0;
  showLoad(stage, report, isOk);
  return result('agent death', isOk, report, { readyAfterMs, connectionsWithoutAgent: carried });
}

/** Told apart from a connection that times out; how long it took is shown. */
const REFUSED_AT_ONCE_MS = 2_000;

export async function showRefusal(stage: Stage): Promise<PhaseResult> {
  const { screen } = stage;
  screen.line(screen.strong('6  A Service without endpoints refuses at once'));
  const answers = [
    await mainClient(stage).once(serviceTarget(stage, 'empty', 'IPv4')),
    await mainClient(stage).once(serviceTarget(stage, 'empty', 'IPv6')),
  ];
  let isOk = true;
  for (const answer of answers) {
    const isRefused =
      answer.kind === 'failed' &&
      answer.code === 'ECONNREFUSED' &&
      answer.elapsedMs < REFUSED_AT_ONCE_MS;
    const text = answer.kind === 'failed' ? answer.code : `answered by ${answer.backend}`;
    isOk &&= isRefused;
    const mark = isRefused ? screen.good('ok') : screen.bad('wrong');
    screen.line(`  ${text} after ${ms(answer.elapsedMs)}  ${mark}`);
  }
  screen.line();
  // Refused connections are expected here and do not count as failed.
  return { name: 'refusal', isOk, connections: answers.length, failures: 0, facts: { answers } };
}

/** Stops the agent and removes its programmed state. */
export async function showCleanup(stage: Stage): Promise<PhaseResult> {
  const { screen } = stage;
  screen.line(screen.strong('7  fairlead cleanup removes the programmed state'));
  const stopCode = await stage.agent.stop();
  const { code, stdout, stderr } = await runCommand(stage.instance, [
    'cleanup',
    ...ownPaths(stage.instance),
  ]);
  for (const line of (code === 0 ? stdout : stderr).trim().split('\n')) {
    screen.line(screen.faint(`  ${line}`));
  }
  const after = await mainClient(stage).once(serviceTarget(stage, 'web'), 1_000);
  const isGone = after.kind === 'failed';
  const text = isGone ? `no longer translated (${after.code})` : 'STILL translated';
  screen.line(`  a connection to ${serviceTarget(stage, 'web').address} is ${text}`);
  screen.line();
  const facts = { stopCode, cleanupCode: code, after };
  const isOk = stopCode === 0 && code === 0 && isGone;
  return { name: 'cleanup', isOk, connections: 0, failures: 0, facts };
}
