// SPDX-License-Identifier: Apache-2.0
import { execFile } from 'node:child_process';
import { link, mkdir, symlink, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { readManifests } from '../../../../src/source/manifests/manifests.ts';
import { LARGEST_FILE_BYTES } from '../../../../src/source/manifests/refresh.ts';
import { changeTexts, folder, problemTexts, service } from './folder.ts';

/** Changes and problems of a folder as text. */
async function read(path: string): Promise<readonly string[]> {
  const { changes, problems } = await readManifests(path);
  return [...changeTexts(changes), ...problemTexts(path, problems)];
}

describe('readManifests', () => {
  test('reads .yaml, .yml and .json, also in sub-folders, in the order of their paths', async () => {
    const { path } = await folder({
      'b.yml': service('b'),
      'a.yaml': service('a'),
      'sub/deep/c.json': JSON.stringify({
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'c' },
      }),
    });
    expect(await read(path)).toEqual([
      'put Service default/a',
      'put Service default/b',
      'put Node c',
    ]);
  });

  test('passes over other and hidden files, and what editors leave behind', async () => {
    const { path } = await folder({
      'notes.txt': 'x',
      '.hidden.yaml': service('x'),
      '.git/y.yaml': service('y'),
      'a.yaml~': service('z'),
      '.a.yaml.swp': 'x',
    });
    expect(await read(path)).toEqual([]);
  });

  test('sees the files of a mounted ConfigMap once, through its links', async () => {
    const { path } = await folder({ '..2024_01/web.yaml': service('web') });
    await symlink('..2024_01', join(path, '..data'));
    await symlink('..data/web.yaml', join(path, 'web.yaml'));
    expect(await read(path)).toEqual(['put Service default/web']);
  });

  test('sees no file twice: links, hard links and folders that link back', async () => {
    const { path } = await folder({ 'a.yaml': service('a'), 'sub/b.yaml': service('b') });
    await symlink('a.yaml', join(path, 'c.yaml'));
    await link(join(path, 'a.yaml'), join(path, 'd.yaml'));
    await symlink('..', join(path, 'sub', 'up'));
    await symlink('sub', join(path, 'sub2'));
    expect(await read(path)).toEqual(['put Service default/a', 'put Service default/b']);
  });

  test('of two definitions the first path wins, and the other is reported', async () => {
    const { path } = await folder({
      'b.yaml': `---\n${service('web', 81)}`,
      'a.yaml': service('web', 80),
      'c.yaml': `${service('x')}---\n${service('x', 90)}`,
    });
    const { changes, problems } = await readManifests(path);
    expect(changes.map((change) => change.type === 'put' && change.object)).toMatchObject([
      { spec: { ports: [{ port: 80 }] } },
      { spec: { ports: [{ port: 80 }] } },
    ]);
    expect(problemTexts(path, problems)).toEqual([
      'b.yaml:5: Service default/web: already defined in a.yaml; this copy is ignored',
      'c.yaml:12: Service default/x: already defined in c.yaml; this copy is ignored',
    ]);
  });

  test('one bad file never blocks another', async () => {
    const { path } = await folder({
      'bad.yaml': 'a: [\n',
      'binary.yaml': 'a\0b',
      'latin.json': '',
      'good.yaml': service('good'),
    });
    await symlink('nowhere', join(path, 'dangling.yaml'));
    await symlink('loop.yaml', join(path, 'loop.yaml'));
    await promisify(execFile)('mkfifo', [join(path, 'pipe.yaml')]);
    await mkdir(join(path, 'folder.yaml'));
    const texts = await read(path);
    expect(texts[0]).toBe('put Service default/good');
    expect(texts.slice(1)).toEqual([
      expect.stringMatching(/^bad\.yaml:2: /),
      'binary.yaml: is binary (it has zero bytes): not a manifest',
      'dangling.yaml: is a dangling symbolic link',
      'latin.json: the file is empty: add objects or delete it',
      expect.stringMatching(/^loop\.yaml: ELOOP/),
      'pipe.yaml: is neither a file nor a folder',
    ]);
  });

  test('text in another encoding is rejected, a byte order mark is accepted', async () => {
    const { path, write } = await folder({ 'bom.yaml': `\ufeff${service('bom')}` });
    await write('a.yaml', '');
    await promisify(execFile)('sh', ['-c', `printf 'name: \\377\\n' > ${join(path, 'a.yaml')}`]);
    expect(await read(path)).toEqual(['put Service default/bom', 'a.yaml: is not UTF-8 text']);
  });

  test('a file beyond the size limit is rejected', async () => {
    const { path } = await folder({ 'big.yaml': service('big') });
    await truncate(join(path, 'big.yaml'), LARGEST_FILE_BYTES + 1);
    expect(await read(path)).toEqual([
      'big.yaml: is 33554433 bytes long, at most 32 MiB are allowed: split the file',
    ]);
  });

  test('a missing folder is a problem, not an empty cluster', async () => {
    const { path } = await folder();
    expect(await read(join(path, 'none'))).toEqual([expect.stringContaining('none: ENOENT')]);
  });
});
