// SPDX-License-Identifier: Apache-2.0
// `fairlead explain` from a folder of manifests to what it prints, without privilege or kernel.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { explainCommand } from '../../src/cli/commands/explain.ts';
import { EXIT } from '../../src/errors.ts';
import { named } from './story.ts';

let dir = '';

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'fairlead-explain-'));
  const documents = ['n1', 'dual', 'ab', 'ab6'].map((name) => named(name).object as object);
  const versioned = documents.map((object) => {
    const { kind } = object as { kind: string };
    return { apiVersion: kind === 'EndpointSlice' ? 'discovery.k8s.io/v1' : 'v1', ...object };
  });
  const text = versioned.map((object) => dump(object, { noRefs: true })).join('---\n');
  writeFileSync(join(dir, 'web.yaml'), text);
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function explained(...flags: readonly string[]): Promise<string> {
  const written: string[] = [];
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
  try {
    const common = [
      '--manifests',
      dir,
      '--hostname-override',
      'N1',
      '--cluster-cidr',
      '10.1.0.0/16',
    ];
    const own = ['--config', '--run-dir'].some((flag) => flags.includes(flag)) ? [] : common;
    await explainCommand()
      .exitOverride()
      .parseAsync([...own, ...flags], { from: 'user' });
  } finally {
    spy.mockRestore();
  }
  return written.join('');
}

it('prints one object for programs', async () => {
  const text = await explained('--from', '10.1.1.9', '--to', '10.96.0.10:80/tcp', '-o', 'json');
  expect(JSON.parse(text)).toMatchObject({
    verdict: 'forward',
    frontend: '10.96.0.10:80/TCP',
    service: 'default/web',
    backends: ['10.1.1.5:8080', '10.1.2.5:8080'],
    masquerade: false,
  });
});

it('takes IPv6 destinations and the flags of an instance', async () => {
  const text = await explained(
    '--from',
    'fd00::9',
    '--to',
    '[fd00:96::10]:80/tcp',
    '-o',
    'json',
    '--masquerade-all',
  );
  expect(JSON.parse(text)).toMatchObject({
    backends: ['[2001:db8:1:1::5]:8080', '[2001:db8:1:2::5]:8080'],
    masquerade: true,
  });
});

it('prints a headline and reasons for people', async () => {
  const text = await explained('--from', '192.0.2.11', '--to', '10.96.0.10:81/tcp');
  expect(text).toContain('192.0.2.11 -> 10.96.0.10:81/TCP: reject');
  expect(text).toContain('which has 80/TCP and not 81/TCP');
});

it('reports what is wrong with its arguments', async () => {
  await expect(explained('--from', 'x', '--to', '10.96.0.10:81/tcp')).rejects.toThrow('client x');
});

it('has all keys, always', async () => {
  const keys = ['verdict', 'frontend', 'service', 'backends', 'masquerade', 'steps'];
  for (const to of ['10.96.0.10:80', '10.96.0.10:81', '10.9.9.9:80']) {
    const parsed: unknown = JSON.parse(
      await explained('--from', '10.1.1.9', '--to', to, '-o', 'json'),
    );
    expect(Object.keys(parsed as object)).toEqual([...keys, 'dataplane', 'limits', 'source']);
  }
});

it('reads settings as run does: --config, and the manifests it names', async () => {
  const config = join(dir, 'config', 'fairlead.conf');
  mkdirSync(join(dir, 'config'));
  const own = { apiVersion: 'fairlead.io/v1alpha1', kind: 'FairleadConfiguration', manifests: dir };
  const proxy = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    clusterCIDR: '10.1.0.0/16',
    hostnameOverride: 'n1',
    iptables: { masqueradeAll: true },
  };
  writeFileSync(config, [proxy, own].map((document) => dump(document)).join('---\n'));
  const text = await explained(
    ...['--config', config, '--from', '10.1.1.9', '--to', '10.96.0.10:80/tcp', '-o', 'json'],
  );
  expect(JSON.parse(text)).toMatchObject({ verdict: 'forward', masquerade: true });
});

it('asks the agent of --run-dir if no manifests are named', async () => {
  const asked = ['--run-dir', join(dir, 'none'), '--from', '10.1.1.9', '--to', '10.96.0.10:80'];
  await expect(explained(...asked)).rejects.toMatchObject({ code: 'NOT_RUNNING' });
});

it('names each flag that a running agent does not use', async () => {
  const said: string[] = [];
  const spy = vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => {
    said.push(String(chunk));
    return true;
  });
  const asked = ['--run-dir', join(dir, 'none'), '--from', '10.1.1.9', '--to', '10.96.0.10:80'];
  await expect(explained(...asked, '--cluster-cidr', '10.0.0.0/8')).rejects.toThrow();
  spy.mockRestore();
  expect(said).toEqual(['--cluster-cidr has no effect: the agent answers with its own settings\n']);
});

it('names a manifest that cannot be read, without a line', async () => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  writeFileSync(join(dir, 'empty.yaml'), '');
  await explained('--from', '10.1.1.9', '--to', '10.96.0.10:80');
  const text = said.mock.calls.join('');
  said.mockRestore();
  expect(process.exitCode).toBe(EXIT.degraded);
  process.exitCode = 0;
  rmSync(join(dir, 'empty.yaml'));
  expect(text).toContain(`${join(dir, 'empty.yaml')}: the file is empty`);
});
