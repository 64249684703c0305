// SPDX-License-Identifier: Apache-2.0
// What `fairlead compare` says if it cannot compare: which side, why, what to do.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { pairsOf } from '../../../src/cli/compare/sides.ts';
import { planOf, recordedText } from './recorded.ts';
import { NODE } from './texts.ts';

let folder: string;
const PATH = process.env['PATH'];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fairlead-compare-'));
});
afterEach(() => {
  process.env['PATH'] = PATH;
  rmSync(folder, { recursive: true });
});

function fileOf(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const familiesOf = async (...names: readonly string[]): Promise<readonly string[]> =>
  (
    await pairsOf({
      names,
      isMeasured: false,
      plan: () => Promise.resolve(planOf('ranges')),
      addresses: () => NODE,
    })
  ).map(({ family }) => family);

const IPV6 = recordedText('ranges', 'iptables')
  .replaceAll(/(?<= -[sd] )[\d.]+\/\d+/g, 'fd00::5/128')
  .replaceAll(/[\d.]+:8080/g, '[fd00::5]:8080')
  .replaceAll(/^#.*\n/gm, '');

test('a file of the other family', async () => {
  const left = fileOf('a.save', IPV6);
  const right = fileOf(
    'b.nft',
    recordedText('ranges', 'nftables').replace(/^table ip6 .*?^}\n/ms, ''),
  );
  await expect(familiesOf(left, right)).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: `${left} has rules of IPv6, ${right} has rules of IPv4, and no IP family is in both: save the other one with \`iptables-save\` or \`ip6tables-save\``,
  });
  expect(await familiesOf('plan', left)).toEqual(['IPv6']);
});

/** Programs of these names say it, and fail; no others are there. */
function programsSay(text: string): void {
  for (const name of ['nft', 'iptables-nft-save', 'ip6tables-nft-save']) {
    const path = fileOf(name, `#!/bin/sh\necho '${text}' >&2\nexit 1\n`);
    chmodSync(path, 0o755);
  }
  process.env['PATH'] = folder;
}

test('rules that only root may read', async () => {
  programsSay('Operation not permitted (you must be root)');
  await expect(familiesOf('plan', 'nftables')).rejects.toMatchObject({
    code: 'NO_PRIVILEGE',
    message:
      'the rules of this node cannot be read: nft: Operation not permitted (you must be root): run it as root, or name files with rules',
  });
});

test('rules that are not there', async () => {
  programsSay('no such table');
  await expect(familiesOf('plan', 'nftables')).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: 'this node has no rules of nftables: it has no rules of a proxy',
  });
});
