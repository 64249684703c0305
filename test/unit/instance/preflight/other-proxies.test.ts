// SPDX-License-Identifier: Apache-2.0
// Other proxies and kubelets that are detected before an agent with manifests attaches.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  findKubeProxy,
  findOtherProxies,
  findServingKubeProxy,
} from '../../../../src/instance/preflight/other-proxies.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'node-'));
  process_('self', 'node', 'net:[1]');
  process_('1', 'systemd', 'net:[1]');
});
afterEach(() => rmSync(root, { recursive: true }));

function file(path: string, text = ''): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function process_(pid: string, comm: string, namespace: string): void {
  file(`proc/${pid}/comm`, `${comm}\n`);
  mkdirSync(join(root, `proc/${pid}/ns`), { recursive: true });
  symlinkSync(namespace, join(root, `proc/${pid}/ns/net`));
}

type Outputs = Readonly<Record<string, string>>;

/** The output of the tools; others are not installed. */
const run = (outputs: Outputs) => async (program: string) => {
  const stdout = outputs[program];
  return { stdout: stdout ?? '', stderr: '', code: stdout === undefined ? 127 : 0 };
};
const find = (outputs: Outputs = {}) => findOtherProxies({ readsRules: true }, root, run(outputs));

test('a standalone machine has none', async () => {
  process_('7', 'kubectl', 'net:[1]');
  expect(
    await find({ nft: 'table inet filter\n', 'iptables-save': '*nat\n:PREROUTING ACCEPT\n' }),
  ).toEqual([]);
});

test('a kubelet is detected by its process or its files', async () => {
  file('var/lib/kubelet/config.yaml');
  expect(await find()).toEqual(['kubelet (/var/lib/kubelet/config.yaml)']);
  process_('70', 'kubelet', 'net:[1]');
  expect(await find()).toEqual(['kubelet (pid 70)']);
});

test('a proxy is detected by its process, but not in another network namespace', async () => {
  process_('71', 'kube-proxy', 'net:[1]');
  process_('72', 'k3s-server', 'net:[1]');
  process_('73', 'kube-proxy', 'net:[9]');
  expect(await find()).toEqual(['kube-proxy (pid 71)', 'kubelet and kube-proxy (k3s) (pid 72)']);
});

test('in a separate network namespace files of the host are ignored', async () => {
  rmSync(join(root, 'proc/self'), { recursive: true });
  process_('self', 'node', 'net:[2]');
  file('var/lib/kubelet/config.yaml');
  expect(await find()).toEqual([]);
});

test("kube-proxy's rules are detected without its process", async () => {
  const outputs = {
    nft: 'table ip nat\ntable ip kube-proxy\ntable ip6 kube-proxy\n',
    'iptables-save': '*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-POSTROUTING - [0:0]\n',
  };
  expect(await find(outputs)).toEqual([
    'kube-proxy (nftables table kube-proxy)',
    'kube-proxy (iptables chain KUBE-SERVICES)',
  ]);
});

test('rules of fairlead’s own iptables engine are not kube-proxy’s', async () => {
  const saved = '*filter\n:KUBE-CLUSTER-IPS - [0:0]\nCOMMIT\n*nat\n:KUBE-SERVICES - [0:0]\n';
  expect(await find({ 'iptables-save': saved })).toEqual([]);
});

describe('kube-proxy alone is detected', () => {
  const findIt = (body: string, outputs: Outputs = {}) =>
    findKubeProxy({ readsRules: true }, root, run(outputs), async () => body);

  test('by its process, not by a kubelet or another proxy', async () => {
    process_('70', 'kubelet', 'net:[1]');
    process_('71', 'kube-proxy', 'net:[1]');
    process_('72', 'cilium-agent', 'net:[1]');
    expect(await findIt('')).toEqual(['kube-proxy (pid 71)']);
  });

  test('by its port, which containers see too', async () => {
    expect(await findIt('nftables')).toEqual([
      'kube-proxy (http://127.0.0.1:10249/proxyMode responds with nftables)',
    ]);
  });

  test('by its rules', async () => {
    expect(await findIt('', { 'iptables-save': ':KUBE-SERVICES - [0:0]\n' })).toEqual([
      'kube-proxy (iptables chain KUBE-SERVICES)',
    ]);
  });

  test('by its rules not, if it has to be running', async () => {
    const outputs = { 'iptables-save': ':KUBE-SERVICES - [0:0]\n' };
    const found = await findKubeProxy({ readsRules: false }, root, run(outputs), async () => '');
    expect(found).toEqual([]);
  });

  test('not by what else answers on that port', async () => {
    expect(await findIt('<html>not found</html>')).toEqual([]);
  });
});

describe('kube-proxy that runs now', () => {
  const serving = (answers: Outputs) =>
    findServingKubeProxy(root, async (url) => answers[new URL(url).pathname] ?? '');

  test('by its process in this network namespace, not by its rules', async () => {
    expect(await serving({})).toEqual([]);
    process_('71', 'kube-proxy', 'net:[1]');
    process_('72', 'kube-proxy', 'net:[9]');
    expect(await serving({})).toEqual(['kube-proxy (pid 71)']);
  });

  test('by its port, unless fairlead answers there', async () => {
    const metrics = 'kubeproxy_x 1\n';
    expect(await serving({ '/proxyMode': 'ipvs', '/metrics': metrics })).toEqual([
      'kube-proxy (http://127.0.0.1:10249/proxyMode responds with ipvs)',
    ]);
    expect(
      await serving({ '/proxyMode': 'iptables', '/metrics': `${metrics}fairlead_x 1\n` }),
    ).toEqual([]);
    expect(await serving({ '/proxyMode': '<html>' })).toEqual([]);
  });
});

test('rules of the iptables that is not the default are found, too', async () => {
  const saved = '*nat\n:KUBE-SERVICES - [0:0]\n';
  for (const program of ['iptables-legacy-save', 'ip6tables-nft-save']) {
    expect(await find({ [program]: saved })).toEqual(['kube-proxy (iptables chain KUBE-SERVICES)']);
  }
});
