// SPDX-License-Identifier: Apache-2.0
// Other proxies and kubelets that are detected before an agent with manifests attaches.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findOtherProxies } from '../../../../src/agent/preflight/other-proxies.ts';

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

/** The output of the tools; others are not installed. */
const find = (outputs: Readonly<Record<string, string>> = {}) =>
  findOtherProxies(root, async (program) => {
    const stdout = outputs[program];
    return { stdout: stdout ?? '', stderr: '', code: stdout === undefined ? 127 : 0 };
  });

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
