// SPDX-License-Identifier: Apache-2.0
// The agent runs unchanged with kube-proxy's DaemonSet arguments and with a file written by kubeadm; errors in
// the file, ports in use and termination behave as users of kube-proxy expect.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EventsV1Event } from '@kubernetes/client-node';
import { dump } from 'js-yaml';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run, start, stop } from '../../../../src/sys/exec.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { getInSandbox } from '../../../support/http/get.ts';
import { kubeadmConfig } from '../../../support/kubeadm/config.ts';
import type { TestNode } from '../../../support/node.ts';
import { AT_ONCE_MS, untilHolds } from '../../../support/until.ts';
import { parseYamls } from '../../../support/yaml.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import { POD_RANGES } from '../histories/oracle.ts';
import type { ListOf } from '../objects/api.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type Launched, launch } from './launch.ts';
import { type ServedNode, startServedNode } from './served-node.ts';

const readiness = await prepareCluster();

describe.skipIf(!readiness.isReady)('kube-proxy’s file and arguments', () => {
  let served: ServedNode;
  let plane: ControlPlane;
  let node: TestNode;
  let folder: string;
  let agent: Launched | undefined;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    served = await startServedNode(readiness.binaries);
    ({ plane, node } = served);
    folder = join(plane.directory, 'var-lib-kube-proxy');
    mkdirSync(folder);
  });
  afterAll(async () => {
    await agent?.stop();
    await served?.remove();
  });

  /** kubeadm's file, followed by what isolates this agent from others on this machine. */
  function writeConfig(name: string, change: (text: string) => string = (text) => text): string {
    const { cgroupRoot, bpfRoot, runDir } = node.instance;
    const own = dump({
      ...{ apiVersion: 'fairlead.io/v1alpha1', kind: 'FairleadConfiguration' },
      ...{ cgroupRoot, bpfRoot, runDir },
    });
    const kubeconfig = plane.kubeconfig({ identity: 'proxy', from: 'node' });
    const path = join(folder, name);
    writeFileSync(path, `${change(kubeadmConfig(kubeconfig, POD_RANGES))}---\n${own}`);
    return path;
  }
  /** The arguments in kubeadm's DaemonSet. */
  const proxyArgs = (path: string): string[] => [`--config=${path}`, '--hostname-override=n1'];
  const startWith = (path: string, ...more: string[]): Launched =>
    launch(node, ['run', ...proxyArgs(path), ...more]);
  const reached = (): Promise<string[]> => served.reached();
  const ask = (port: number, path: string) => getInSandbox(node.instance.sandbox, port, path);

  test('start the agent unchanged, and its ports answer in the node’s namespace', async () => {
    agent = startWith(writeConfig('config.conf'));
    await agent.said('"msg":"ready"');
    await untilHolds(async () => expect(await reached()).toEqual(['web-1']), 60_000);
    expect(await ask(10256, '/healthz')).toMatchObject({ status: 200 });
    expect(await ask(10256, '/livez')).toMatchObject({ status: 200 });
    expect(await ask(10256, '/readyz')).toMatchObject({ status: 200 });
    expect(await ask(10249, '/healthz')).toMatchObject({ status: 200 });
    expect(await ask(10249, '/metrics')).toMatchObject({ status: 200 });
    expect(await ask(10249, '/proxyMode')).toEqual({ status: 200, body: 'iptables' });
    const { source, problems } = await node.status();
    expect(problems).toEqual([]);
    expect(source.cluster?.why).toContain('clientConnection.kubeconfig');
    expect(agent.log.filter((line) => line.includes('"level":"warn"'))).toEqual([]);
  });

  test('the effective configuration is the one kube-proxy would have', async () => {
    const { body } = await ask(10249, '/configz');
    const shown = JSON.parse(body) as Record<string, Record<string, unknown>>;
    expect(shown['kubeproxy.config.k8s.io']).toMatchObject({
      clusterCIDR: '10.1.0.0/16,fd00:10::/32',
      hostnameOverride: 'n1',
      mode: '',
      conntrack: { maxPerCore: 32768, min: 131072, tcpEstablishedTimeout: '24h0m0s' },
      healthzBindAddress: '0.0.0.0:10256',
      metricsBindAddress: '127.0.0.1:10249',
    });
  });

  test('SIGTERM: exits with 0 at once, traffic continues', async () => {
    const load = await node.client().startLoad(served.web);
    const atMs = performance.now();
    agent?.kill('SIGTERM');
    expect(await agent?.exited).toBe(0);
    expect(performance.now() - atMs).toBeLessThan(AT_ONCE_MS);
    expect(await reached()).toEqual(['web-1']);
    agent = startWith(writeConfig('config.conf'));
    await agent.said('"msg":"ready"');
    const { failures, connections } = await load.stop();
    expect(failures).toEqual([]);
    expect(connections).toBeGreaterThan(50);
  });

  test('ports in use are reported, retried and bound', async () => {
    await agent?.stop();
    const release = await takePorts(node, [10249, 10256]);
    const path = writeConfig('config.conf');
    agent = startWith(path);
    await agent.said('"msg":"ready"');
    for (const port of ['[::]:10256', '127.0.0.1:10249']) {
      expect(await agent.said(port)).toMatch(/in use by another process.*retrying every 5 s/);
    }
    expect(await reached()).toEqual(['web-1']);
    await release();
    await untilHolds(async () => {
      expect(await ask(10256, '/healthz')).toMatchObject({ status: 200 });
      expect(await ask(10249, '/healthz')).toMatchObject({ status: 200 });
    });
  });

  test('its Events reach the API server, including those from before it was connected', async () => {
    const path = '/apis/events.k8s.io/v1/namespaces/default/events';
    await untilHolds(async () => {
      const { items } = await plane.api.get<ListOf<EventsV1Event>>(path);
      const seen = items.map(({ reason, regarding }) => `${reason} ${regarding?.name}`);
      expect(seen).toEqual(
        expect.arrayContaining([
          'Starting n1',
          'FailedToStartProxierHealthcheck n1',
          'FailedToStartMetricServer n1',
        ]),
      );
    });
  });

  test('with bindAddressHardFail it exits on a port in use, and traffic continues', async () => {
    await agent?.stop();
    const release = await takePorts(node, [10256]);
    const hard = writeConfig('hard.conf', (text) =>
      text.replace('HardFail: false', 'HardFail: true'),
    );
    const refused = startWith(hard);
    expect(await refused.exited).toBe(2);
    expect(refused.log.at(-1)).toMatch(/^fairlead: healthz server cannot listen on \[::\]:10256/);
    expect(await reached()).toEqual(['web-1']);
    await release();
  });

  const WRONG: readonly {
    readonly name: string;
    readonly change: (text: string) => string;
    /** The offending line of the file. */
    readonly line: RegExp;
    readonly says: string;
  }[] = [
    {
      name: 'an unknown key',
      change: (text) => text.replace('maxPerCore:', 'maxPerCpu:'),
      line: /maxPerCpu/,
      says: 'conntrack.maxPerCpu: unknown field: check its spelling and its section',
    },
    {
      name: 'a wrong type',
      change: (text) => text.replace('maxPerCore: null', 'maxPerCore: many'),
      line: /maxPerCore/,
      says: 'conntrack.maxPerCore: must be a number, not "many"',
    },
    {
      name: 'a duplicate kind',
      change: (text) => `${text}---\n${text}`,
      line: /^kind: KubeProxyConfiguration/,
      says: 'KubeProxyConfiguration: occurs twice in this file: keep one of them',
    },
    {
      name: 'an unknown apiVersion',
      change: (text) => text.replace('io/v1alpha1', 'io/v1beta9'),
      line: /^apiVersion: kubeproxy/,
      says: 'apiVersion: of a KubeProxyConfiguration must be kubeproxy.config.k8s.io/v1alpha1, not "kubeproxy.config.k8s.io/v1beta9"',
    },
    {
      name: 'an unknown kind',
      change: (text) => text.replace('kind: KubeProxyC', 'kind: ProxyC'),
      line: /^kind: Proxy/,
      says: 'kind: must be KubeProxyConfiguration or FairleadConfiguration, not "ProxyConfiguration"',
    },
    {
      name: 'a duplicate key',
      change: (text) => text.replace('mode: ""', 'mode: ""\nmode: ""'),
      line: /^mode/,
      says: 'is not YAML: duplicated mapping key',
    },
  ];

  test.each(WRONG)('$name in the file: one line with its location, exit code 2', async (wrong) => {
    const path = writeConfig('wrong.conf', wrong.change);
    const lines = readFileSync(path, 'utf8').split('\n');
    const refused = startWith(path);
    expect(await refused.exited).toBe(2);
    const at = lines.findLastIndex((text) => wrong.line.test(text)) + 1;
    expect(refused.log).toEqual([`fairlead: ${path}:${at}: ${wrong.says}`]);
    expect(await reached()).toEqual(['web-1']);
  });

  test.each([
    [
      'that is missing',
      '/nonexistent/config.conf',
      'it does not exist: correct the path, or mount the file',
    ],
    ['that is a folder', '/etc', 'it is a folder: name the file in it'],
  ])('a file %s: one line, code 2', async (_, path, why) => {
    const refused = startWith(path);
    expect(await refused.exited).toBe(2);
    expect(refused.log).toEqual([`fairlead: --config ${path} cannot be read: ${why}`]);
  });

  test('--write-config-to writes both documents, and kube-proxy accepts the file', async () => {
    const written = join(folder, 'written.conf');
    const writer = startWith(writeConfig('config.conf'), `--write-config-to=${written}`);
    expect(await writer.exited).toBe(0);
    const documents = parseYamls<{ kind: string }>(readFileSync(written, 'utf8'));
    expect(documents.map(({ kind }) => kind)).toEqual([
      'KubeProxyConfiguration',
      'FairleadConfiguration',
    ]);
    const again = join(folder, 'again.conf');
    const { kubeProxy } = plane.binaries;
    const args = [...proxyArgs(written), `--write-config-to=${again}`];
    expect(await run(kubeProxy, args)).toMatchObject({ code: 0 });
    expect(readFileSync(again, 'utf8')).toContain('clusterCIDR: 10.1.0.0/16,fd00:10::/32');
    agent = startWith(written);
    await agent.said('"msg":"ready"');
    expect(await reached()).toEqual(['web-1']);
  });
});

const LISTEN = `import { createServer } from 'node:net';
let left = process.argv.length - 1;
for (const port of process.argv.slice(1)) {
  createServer().listen(Number(port), '0.0.0.0', () => { if (--left === 0) console.log('ready'); });
}`;

/** Holds the port with another program of the node until released. */
async function takePorts(node: TestNode, ports: readonly number[]): Promise<() => Promise<void>> {
  const argv = [process.execPath, '--input-type=module', '-e', LISTEN, ...ports.map(String)];
  const [shell = 'sh', ...args] = insideSandbox(node.instance.sandbox, argv);
  let isListening: () => void = () => undefined;
  const listening = new Promise<void>((resolve) => {
    isListening = resolve;
  });
  const child = start(shell, args, { onStdoutLine: isListening });
  await Promise.race([listening, child.exited]);
  return async () => void (await stop(child));
}
