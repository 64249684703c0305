// SPDX-License-Identifier: Apache-2.0
// From an agent with --shadow to one that serves: it takes over, unless Services would be served in another way. Beside the real
// kube-proxy: test/integration/oracle/shadow.test.ts.

import { rmSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { readRecord, recordPath, writeRecord } from '../../../../src/instance/shadow/record.ts';
import { run } from '../../../../src/sys/exec.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service } from '../../../support/builders.ts';
import { getInSandbox } from '../../../support/http/get.ts';
import { startOneNode } from '../../../support/node.ts';
import { evaluateAlerts, preparePromql } from '../../../support/programs/promql.ts';
import { until } from '../../../support/until.ts';

const promql = await preparePromql();
let node: Awaited<ReturnType<typeof startOneNode>>;
const agents: Agent[] = [];
const start = async (...flags: readonly string[]): Promise<Agent> => {
  const agent = await node.startAgent(flags);
  agents.push(agent);
  return agent;
};

beforeAll(async () => {
  node = await startOneNode(['web-1']);
  node.manifests.put('web.yaml', service('web', { n: 10 }, node.pods('web-1')));
});
afterAll(() => node?.remove());
afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.stop();
  rmSync(recordPath(node.instance.runDir), { force: true });
});

const SHADOW = ['--shadow', '--shadow-wait', '200ms'];

test('where no kube-proxy has rules it says that nothing can be compared', async () => {
  await start(...SHADOW);
  const shadow = await until(
    async () => {
      const { shadow: view } = await node.status();
      return view?.problem === undefined ? undefined : view;
    },
    { what: 'it has looked for rules' },
  );
  expect(shadow.problem).toMatch(/^this node has no rules of kube-proxy .* start kube-proxy/);
  const { runDir } = node.instance;
  const { code, stdout } = await runCommand(node.instance, ['status', '--run-dir', runDir]);
  expect(code).toBe(3);
  expect(stdout).toMatch(/^Health: +degraded: nothing can be compared$/m);
  expect(stdout).toMatch(/^Shadow: +this node has no rules of kube-proxy/m);
  expect(stdout).toMatch(/^Limit: +shadow: nothing is served or changed/m);
  if (!promql.isReady) return;
  const { body } = await getInSandbox(node.instance.sandbox, 10_267, '/metrics');
  const fired = await evaluateAlerts(promql.program, { shadow: [body] }, Date.now());
  expect(fired['shadow']).toMatchObject({ FairleadShadowCannotCompare: 900 });
});

/** Of connection tracking: a flow to the Service whose backend is gone. */
const STALE = [
  ...['-p', 'udp', '-s', '10.1.1.1', '-d', '10.96.0.11', '--sport', '4711', '--dport', '80'],
  ...['-r', '10.1.1.250', '-q', '10.1.1.1', '--reply-port-src', '8080', '--reply-port-dst', '4711'],
  ...['-t', '600', '-u', 'ASSURED,SEEN_REPLY'],
];

async function conntrack(...args: readonly string[]): Promise<string> {
  const [program = '', ...rest] = insideSandbox(node.self, ['conntrack', ...args]);
  const { code, stdout, stderr } = await run(program, rest);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  return stdout;
}

test('an agent that serves takes over from it, and deletes the stale flows that it has left', async () => {
  node.manifests.put('dns.yaml', service('dns', { n: 11, protocol: 'UDP' }, node.pods('web-1')));
  await conntrack('-I', ...STALE);
  const shadow = await start(...SHADOW);
  await until(async () => (await node.status()).shadow?.problem !== undefined, {
    what: 'it has looked for rules',
  });
  expect(await conntrack('-L', '-p', 'udp')).toContain('src=10.1.1.250');
  expect((await node.status()).dataplanes).toEqual(['shadow']);
  await start('--take-over');
  expect(await shadow.stop()).toBe(0);
  expect((await node.status()).dataplanes).toEqual(['bpf']);
  await node.programmed();
  await until(async () => !(await conntrack('-L', '-p', 'udp')).includes('src=10.1.1.250'), {
    what: 'the stale flow is gone',
  });
});

test('not where a Service would be served in another way, unless it is told to', async () => {
  const at = new Date().toISOString();
  writeRecord(node.instance.runDir, { at, differing: [{ service: 'default/web', what: 'w' }] });
  await expect(start()).rejects.toThrow(/code 1: .*default\/web: w; .*--switch-anyway/);
  const agent = await start('--switch-anyway');
  const warned = agent.log.filter((line) => line.includes('would be served in another way'));
  expect(warned).toHaveLength(1);
  await until(() => readRecord(node.instance.runDir) === undefined, {
    what: 'the record is gone, as an agent serves',
  });
});
