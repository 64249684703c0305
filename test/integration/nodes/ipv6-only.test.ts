// SPDX-License-Identifier: Apache-2.0
// Health and metrics over every family that a node has, by the default addresses: of a node of both families, and of one
// that has lost its IPv4 addresses. A load balancer over IPv6 asks /healthz; a person on the node asks localhost.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../src/sys/exec.ts';
import { insideNamespace } from '../../../src/sys/netns.ts';
import type { Agent } from '../../../tools/lab/agent.ts';
import { service } from '../../support/builders.ts';
import { startOneNode } from '../../support/node.ts';
import { type OtherNode, onEachProxy } from '../../support/nodes/other-node.ts';
import { untilHolds } from '../../support/until.ts';

const DEFAULTS = {
  flags: ['--healthz-bind-address=0.0.0.0:10256', '--metrics-bind-address=127.0.0.1:10249'],
  fields: { healthzBindAddress: '0.0.0.0:10256', metricsBindAddress: '127.0.0.1:10249' },
} as const;

/** The status, or that nobody listens there. */
async function answerOf(
  runInside: (argv: readonly string[]) => Promise<string>,
  url: string,
): Promise<string> {
  const script = `fetch(${JSON.stringify(url)}).then((r) => console.log(r.status), (e) => console.log(e.cause?.code ?? 'failed'))`;
  return (await runInside([process.execPath, '-e', script])).trim();
}
const status = (node: OtherNode, short: string, url: string): Promise<string> =>
  answerOf((argv) => node.run(short, argv), url);

onEachProxy('ipv6-only', DEFAULTS, (node) => {
  beforeAll(() => node.serve(['dual', 'ab6']));

  test('/healthz over IPv4 and IPv6', async () => {
    for (const host of ['192.0.2.11', '[2001:db8::11]']) {
      await node.sees(`/healthz at ${host}`, '200', () =>
        status(node, 'X', `http://${host}:10256/healthz`),
      );
    }
  });

  test('/metrics of a node with IPv4: on its loopback alone', async () => {
    await node.sees('/metrics at 127.0.0.1', '200', () =>
      status(node, 'n1', 'http://127.0.0.1:10249/metrics'),
    );
    await node.sees('/metrics at ::1', 'ECONNREFUSED', () =>
      status(node, 'n1', 'http://[::1]:10249/metrics'),
    );
  });
});

describe.each([
  ['without IPv4 but on its loopback', '-4 addr flush dev br0', ['200', '200', '200']],
  ['without any IPv4', '-4 addr flush scope global', ['200', 'ECONNREFUSED', '200']],
] as const)('a node %s', (title, flush, [health, metrics4, metrics6]) => {
  let node: Awaited<ReturnType<typeof startOneNode>>;
  let agent: Agent;
  beforeAll(async () => {
    node = await startOneNode(['web'], []);
    const { namespace } = node.self;
    await must(namespace, ['ip', ...flush.split(' ')]);
    if (title === 'without any IPv4')
      await must(namespace, ['ip', '-4', 'addr', 'flush', 'dev', 'lo']);
    node.manifests.put('web.yaml', service('web', { n: 10 }, node.pods('web')));
    agent = await node.startAgent();
  });
  afterAll(async () => {
    await agent?.stop();
    node?.remove();
  });

  test('is asked over IPv6, and says its metrics at localhost', async () => {
    const ask = (url: string): Promise<string> =>
      answerOf((argv) => must(node.self.namespace, argv), url);
    await untilHolds(async () =>
      expect(await ask('http://[fd00:10:1::1]:10256/livez')).toBe(health),
    );
    expect(await ask('http://[::1]:10249/metrics')).toBe(metrics6);
    const byIpv4 = await ask('http://127.0.0.1:10249/metrics');
    expect(byIpv4 === '200').toBe(metrics4 === '200');
  });
});

async function must(namespace: string, argv: readonly string[]): Promise<string> {
  const [program = '', ...args] = insideNamespace(namespace, argv);
  const { code, stdout, stderr } = await run(program, args);
  if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr}`);
  return stdout;
}
