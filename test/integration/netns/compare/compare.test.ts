// SPDX-License-Identifier: Apache-2.0
// `fairlead compare` on a node with rules of fairlead and of kube-proxy in the kernel: it proves that they do what the manifests say,
// and names what was planted. It changes nothing, and needs no agent.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Kind } from '../../../../src/model/types.ts';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { type StubApi, startStubApi } from '../../../../tools/lab/api/stub.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service } from '../../../support/builders.ts';
import { routeServices } from '../../../support/iptables/routed-node.ts';
import { startOneNode } from '../../../support/node.ts';
import { nodeObject } from '../../../support/objects.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;

const inNode = async (argv: readonly string[], stdin = ''): Promise<RunResult> => {
  const [program = '', ...args] = insideSandbox(node.self, argv);
  return run(program, args, { stdin });
};
/** @param flags the last one of a name counts */
const compareWith = (source: readonly string[], ...args: readonly string[]): Promise<RunResult> => {
  const flags = ['--hostname-override', node.instance.nodeName, '--retry-after', '1ms'];
  return runCommand(node.instance, ['compare', ...source, ...flags, ...args]);
};
const compare = (...args: readonly string[]): Promise<RunResult> =>
  compareWith(['--manifests', node.instance.manifests.path], ...args);
interface NamedObject {
  readonly kind: Kind;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

const objectsOf = (folder: string): readonly NamedObject[] =>
  readdirSync(folder).flatMap(
    (file) => loadAll(readFileSync(join(folder, file), 'utf8')) as NamedObject[],
  );

const nft = async (line: string): Promise<void> => {
  expect(await inNode(['nft', line])).toMatchObject({ code: 0, stderr: '' });
};

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2', 'dns-1']);
  await routeServices(node);
  node.manifests.put(
    'web.yaml',
    service('web', { n: 10, nodePort: 30_080 }, node.pods('web-1', 'web-2')),
  );
  node.manifests.put('dns.yaml', service('dns', { n: 11 }, node.pods('dns-1')));
});
afterAll(() => node?.remove());

beforeEach(async () => {
  await inNode(['nft', 'flush', 'ruleset']);
});

test('without rules of a proxy it says so', async () => {
  expect(await compare()).toMatchObject({
    code: 4,
    stdout: '',
    stderr: expect.stringContaining(
      'this node has no rules of a proxy in iptables, nftables or ipvs',
    ),
  });
});

test.each(['nftables', 'iptables'])(
  'rules of the engine %s do what the manifests say',
  async (engine) => {
    const agent = await node.startAgent(['--engine', engine]);
    try {
      await node.programmed();
      const { code, stdout, stderr } = await compare('plan', `fairlead-${engine}`);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toMatch(
        /^IPv4: plan and fairlead-\S+, \d+ classes of clients at \d+ destinations: (no difference|0 unexplained)/,
      );
    } finally {
      await agent.stop();
    }
  },
);

test('a backend that somebody has exchanged is found, with the Service and the rule', async () => {
  const agent = await node.startAgent(['--engine', 'nftables']);
  await node.programmed();
  await agent.stop();
  const listed = (await inNode(['nft', '-y', 'list', 'map', 'ip', 'fairlead', 'service-ips']))
    .stdout;
  const [, key = '', chain = ''] =
    /((?:\d+\.){3}10 \. tcp \. \d+) : (goto \S*web\S*)/.exec(listed) ?? [];
  const [, other = ''] = /: (goto \S*dns[^,\s]*)/.exec(listed) ?? [];
  await nft(`delete element ip fairlead service-ips { ${key} : ${chain.replace(/,$/, '')} }`);
  await nft(`add element ip fairlead service-ips { ${key} : ${other} }`);
  const { code, stdout } = await compare('plan', 'fairlead-nftables');
  expect(code).toBe(3);
  expect(stdout).toMatch(/default\/web \S+ from .*: backends differs/);
  expect(stdout).toMatch(/fairlead-nftables: ip fairlead service-\S*dns/);
  const of = (service: string) => compare('plan', 'fairlead-nftables', '--service', service);
  expect(await of('default/web')).toMatchObject({ code: 3 });
  expect(await of('default/dns')).toMatchObject({ code: 0 });
  expect(await of('default/nobody')).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('--service default/nobody: no such Service is served'),
  });
  expect(await of('web')).toMatchObject({ code: 2 });
});

const IPTABLES_RULE = '-p tcp -m tcp --dport 30080 -j DROP';
const FOREIGN: readonly (readonly [engine: string, kind: string, told: string])[] = [
  ['nftables', 'nftables', 'ip mine c: tcp dport 30080 drop'],
  ['iptables', 'nftables', 'ip mine c: tcp dport 30080 drop'],
  ['nftables', 'iptables', `-t raw -A PREROUTING ${IPTABLES_RULE}`],
];

test.each(FOREIGN)(
  'beside rules of the engine %s, a rule of another program in %s that drops what is for a Service is told',
  async (engine, kind, told) => {
    const agent = await node.startAgent(['--engine', engine]);
    await node.programmed();
    await agent.stop();
    if (kind === 'nftables') {
      await nft('add table ip mine');
      await nft('add chain ip mine c { type filter hook prerouting priority -200; }');
      await nft('add rule ip mine c tcp dport 30080 drop');
    } else {
      const rule = ['-t', 'raw', '-A', 'PREROUTING', ...IPTABLES_RULE.split(' ')];
      expect(await inNode(['iptables-nft', ...rule])).toMatchObject({ code: 0 });
    }
    const { code, stdout } = await compare('plan', `fairlead-${engine}`);
    expect(code).toBe(3);
    expect(stdout).toContain('(foreign-rule)');
    expect(stdout).toContain(told);
  },
);

test('a manifest that cannot be read is told', async () => {
  const agent = await node.startAgent(['--engine', 'nftables']);
  await node.programmed();
  await agent.stop();
  const broken = join(node.instance.manifests.path, 'broken.yaml');
  writeFileSync(broken, '{');
  const { stderr } = await compare('plan', 'fairlead-nftables');
  rmSync(broken);
  expect(stderr).toContain('broken.yaml');
});

test('rules in a file are compared with rules of the node', async () => {
  const agent = await node.startAgent(['--engine', 'nftables']);
  await node.programmed();
  await agent.stop();
  const file = join(node.instance.runDir, 'saved.nft');
  writeFileSync(file, (await inNode(['nft', '-y', 'list', 'ruleset'])).stdout);
  expect(await compare('fairlead-nftables', file)).toMatchObject({ code: 0 });
  await nft('flush chain ip fairlead services');
  const { code, stdout } = await compare('fairlead-nftables', file, '-o', 'json');
  expect(code).toBe(3);
  const { comparisons } = JSON.parse(stdout);
  const open = { part: 'verdict', reason: null };
  expect(comparisons[0].differences).toContainEqual(expect.objectContaining(open));
});

test('a difference that is gone when all is read again is none', async () => {
  const agent = await node.startAgent(['--engine', 'nftables']);
  await node.programmed();
  await agent.stop();
  const saved = (await inNode(['nft', '-y', 'list', 'table', 'ip', 'fairlead'])).stdout;
  await nft('flush chain ip fairlead services');
  expect(await compare('plan', 'fairlead-nftables')).toMatchObject({ code: 3 });
  const late = compare('plan', 'fairlead-nftables', '--retry-after', '5s');
  await inNode(['nft', '-f', '-'], `delete table ip fairlead\n${saved}`);
  expect(await late).toMatchObject({ code: 0 });
});

describe('with the lists of an API server', () => {
  let api: StubApi;
  beforeAll(async () => {
    api = await startStubApi(node.self, '127.0.0.1', node.instance.runDir);
    await api.change(
      // Without its Node an agent of this name waits, and so does the command.
      [nodeObject(node.instance.nodeName) as NamedObject, ...objectsOf(node.manifests.path)].map(
        (object) => {
          const { name, namespace = '' } = object.metadata;
          return { type: 'put', ref: { kind: object.kind, namespace, name }, object };
        },
      ),
    );
  });
  afterAll(() => api?.stop());

  test('the plan is made of its objects, and -o wide lists what is known, too', async () => {
    const agent = await node.startAgent(['--engine', 'nftables']);
    await node.programmed();
    await agent.stop();
    const { code, stdout, stderr } = await compareWith(
      ['--kubeconfig', api.kubeconfig],
      ...['plan', 'fairlead-nftables', '-o', 'wide'],
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(
      /default\/web 127\.0\.0\.1:30080\/TCP from this node .*: verdict differs \(no-loopback-node-ports\)/,
    );
    // The Service dns is no object of this API server: its rules are too many.
    await api.change([
      { type: 'remove', ref: { kind: 'Service', namespace: 'default', name: 'dns' } },
    ]);
    const without = await compareWith(
      ['--kubeconfig', api.kubeconfig],
      'plan',
      'fairlead-nftables',
    );
    expect(without.code).toBe(3);
    expect(without.stdout).toMatch(/no Service \S+ from .*: verdict differs/);
  });

  test('a name that no Node has ends it, and says so', async () => {
    const { code, stderr } = await compareWith(
      ['--kubeconfig', api.kubeconfig],
      ...['plan', 'fairlead-nftables', '--timeout', '1s', '--hostname-override', 'nobody'],
    );
    expect(code).toBe(124);
    expect(stderr).toContain('waiting for Node nobody');
  });

  test('lists that do not come end it with the name of the server', async () => {
    await api.hold('EndpointSlice');
    const { code, stderr } = await compareWith(
      ['--kubeconfig', api.kubeconfig],
      ...['plan', 'fairlead-nftables', '--timeout', '1s'],
    );
    await api.hold(null);
    expect(code).toBe(124);
    expect(stderr).toMatch(/the lists of http:\/\/127\.0\.0\.1:6443\/? are not complete/);
  });
});
