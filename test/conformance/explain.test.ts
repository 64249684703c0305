// SPDX-License-Identifier: Apache-2.0
// `fairlead explain` from a folder of manifests to what it prints, without privilege or kernel.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { explainCommand } from '../../src/cli/explain.ts';
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
    await explainCommand()
      .exitOverride()
      .parseAsync([...common, ...flags], { from: 'user' });
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
  expect(text).toContain('192.0.2.11 -> 10.96.0.10:81/TCP: rejected');
  expect(text).toContain('which has 80/TCP and not 81/TCP');
});

it('says what is wrong with a question', async () => {
  await expect(explained('--from', 'x', '--to', '10.96.0.10:81/tcp')).rejects.toThrow('client x');
});
