// SPDX-License-Identifier: Apache-2.0
import { mkdir, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { folder, problemTexts, record, service, slice } from './folder.ts';

const WEB = { kind: 'Service', namespace: 'default', name: 'web' } as const;
const A = { ...WEB, name: 'a' };

/** A source on a folder, already synced, with the events up to then taken away. */
async function synced(files: Readonly<Record<string, string>>, removalDelayMs?: number) {
  const own = await folder(files);
  const recording = record(own.path, removalDelayMs);
  await recording.until(() => recording.events.includes('synced'), 'first reading');
  recording.events.length = 0;
  return { ...own, ...recording };
}

describe('openManifests', () => {
  test('delivers every object before it says synced, and says so once', async () => {
    const { path, write } = await folder({ 'a.yaml': service('a'), 'b.yaml': service('b') });
    const { events, until } = record(path);
    await until(() => events.length >= 3, 'first reading');
    await write('c.yaml', service('c'));
    await until(() => events.length >= 4, 'the new file');
    expect(events).toEqual([
      'put Service default/a',
      'put Service default/b',
      'synced',
      'put Service default/c',
    ]);
  });

  test('an empty folder is synced without changes', async () => {
    const { path } = await folder();
    const { events, until } = record(path);
    await until(() => events.length > 0, 'synced');
    expect(events).toEqual(['synced']);
  });

  test('delivers only what changed, whichever way the file was saved', async () => {
    const { events, until, write, replace } = await synced({
      'a.yaml': `${service('a')}---\n${service('web')}`,
    });
    await write('a.yaml', `# moved down\n${service('a')}---\n${service('web', 81)}`);
    await until(() => events.length > 0, 'the change in place');
    await replace('a.yaml', `${service('a', 82)}---\n${service('web', 81)}`);
    await until(() => events.length > 1, 'the change by rename');
    expect(events).toEqual(['put Service default/web', 'put Service default/a']);
  });

  test('removes what a deleted file defined, and lets the second copy take over', async () => {
    const { path, events, until } = await synced({
      'a.yaml': `${service('a')}---\n${service('web', 1)}`,
      'b.yaml': service('web', 2),
    });
    await unlink(join(path, 'a.yaml'));
    await until(() => events.length >= 2, 'the removal');
    expect(events).toEqual(['remove Service default/a', 'put Service default/web']);
  });

  test('a broken file keeps its last valid state until it is repaired', async () => {
    const { path, source, events, until, write } = await synced({ 'a.yaml': service('web') });
    await write('a.yaml', 'kind: [\n');
    await until(() => source.problems().length > 0, 'the problem');
    expect(problemTexts(path, source.problems())[0]).toMatch(/^a\.yaml:2: /);
    expect(source.locate(WEB, 'spec.ports[0].port')).toEqual({
      file: join(path, 'a.yaml'),
      line: 7,
    });
    await write('a.yaml', service('web', 81));
    await until(() => source.problems().length === 0, 'the end of the problem');
    expect(events).toEqual(['put Service default/web']);
  });

  test('an emptied file keeps its last valid state: writers truncate before they write', async () => {
    const { source, events, until, write } = await synced({ 'a.yaml': service('web') });
    await write('a.yaml', '');
    await until(() => source.problems().length > 0, 'the problem');
    await write('a.yaml', service('web'));
    await until(() => source.problems().length === 0, 'the end of the problem');
    expect(events).toEqual([]);
  });

  test('follows the swap of a ConfigMap', async () => {
    const { path } = await folder({ '..1/web.yaml': service('web', 1) });
    await symlink('..1', join(path, '..data'));
    await symlink('..data/web.yaml', join(path, 'web.yaml'));
    const { source, changes, until } = record(path);
    await until(() => changes.length === 1, 'first reading');
    for (const [version, port] of [
      [2, 20],
      [3, 30],
    ]) {
      await mkdir(join(path, `..${version}`));
      await writeFile(join(path, `..${version}`, 'web.yaml'), service('web', port));
      await symlink(`..${version}`, join(path, '..tmp'));
      await rename(join(path, '..tmp'), join(path, '..data'));
      await rm(join(path, `..${version! - 1}`), { recursive: true });
      await until(() => changes.length === version, `version ${version}`);
      expect(changes.at(-1)).toMatchObject({ object: { spec: { ports: [{ port }] } } });
    }
    expect(source.problems()).toEqual([]);
  });

  test('sees sub-folders that come, change and go', async () => {
    const { path, events, until, write } = await synced({});
    await write('x/y/a.yaml', service('a'));
    await until(() => events.length === 1, 'the file in a new folder');
    await write('x/y/a.yaml', service('a', 81));
    await until(() => events.length === 2, 'its change');
    await rm(join(path, 'x'), { recursive: true });
    await until(() => events.length === 3, 'its end');
    await write('x/y/a.yaml', service('a'));
    await until(() => events.length === 4, 'its return');
    const put = 'put Service default/a';
    expect(events).toEqual([put, put, 'remove Service default/a', put]);
  });

  test('a deleted folder removes nothing, and is found again', async () => {
    const { path, source, events, until, write } = await synced({
      'a.yaml': service('a'),
      'web.yaml': service('web'),
    });
    await rename(path, `${path}-away`);
    await until(() => source.problems().length > 0, 'the problem');
    expect(events).toEqual([]);
    await rm(`${path}-away`, { recursive: true });
    await mkdir(path);
    await write('web.yaml', service('web', 81));
    await until(() => events.length >= 2 && source.problems().length === 0, 'the new folder');
    expect([...events].sort()).toEqual(['put Service default/web', 'remove Service default/a']);
    await write('web.yaml', service('web', 82));
    await until(() => events.length >= 3, 'a change in the new folder');
  });

  test('waits for a folder that does not exist yet', async () => {
    const { path } = await folder();
    const late = join(path, 'late');
    const { source, events, until } = record(late);
    await until(() => source.problems().length > 0, 'the problem');
    expect(events).toEqual([]);
    await mkdir(late);
    await until(() => events.includes('synced'), 'the folder');
    expect(source.problems()).toEqual([]);
  });

  test('finds the line of a field of a delivered object', async () => {
    const { path, source } = await synced({
      'a.yaml': service('a'),
      'list.yaml': `apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata:\n    name: web\n  spec:\n    clusterIP: nonsense\n`,
    });
    const list = join(path, 'list.yaml');
    expect(source.locate(WEB, 'spec.clusterIP')).toEqual({ file: list, line: 9 });
    expect(source.locate(WEB, 'spec.ports[0].port')).toEqual({ file: list, line: 8 });
    expect(source.locate(A, 'metadata.name')).toEqual({ file: join(path, 'a.yaml'), line: 4 });
    expect(source.locate({ ...WEB, name: 'other' }, 'spec')).toBeUndefined();
  });

  test('tells the fields that a kind does not have, and where they stand', async () => {
    const { path, source, changes, until, write } = await synced({ 'a.yaml': service('web') });
    await write('a.yaml', `${service('web')}  clusterip: 10.96.0.1\n`);
    await until(() => changes.length === 2, 'the misspelt version');
    expect(changes.map((change) => change.type === 'put' && change.unknownFields)).toEqual([
      undefined,
      ['spec.clusterip'],
    ]);
    expect(source.locate(WEB, 'spec.clusterip')).toEqual({ file: join(path, 'a.yaml'), line: 8 });
    expect(source.problems()).toEqual([]);
  });

  test('after many saves the last one counts', async () => {
    const { changes, until, write } = await synced({ 'a.yaml': service('web', 1) });
    for (let port = 2; port <= 200; port += 1) await write('a.yaml', service('web', port));
    const isLast = (): boolean => JSON.stringify(changes.at(-1)).includes('"port":200');
    await until(isLast, 'the last port');
  });

  test('an object that can no longer be named is not taken for deleted', async () => {
    const { path, source, events, until, write } = await synced({
      'a.yaml': `${service('a')}---\n${service('web')}`,
    });
    const text = `${service('a', 81)}---\n${service('web')}`;
    await write('a.yaml', text.replace(/Service(?=\nmetadata:\n {2}name: web)/, 'Servise'));
    await until(() => events.length > 0, 'the change of the other object');
    expect(events).toEqual(['put Service default/a']);
    expect(problemTexts(path, source.problems())).toEqual([
      'a.yaml:10: kind "Servise" is not supported: use one of Service, EndpointSlice, Node, ServiceCIDR',
      'a.yaml: Service default/web: is no longer in the file, which has an object that cannot be read: its last good version keeps serving',
    ]);
    await write('a.yaml', service('a', 81));
    await until(() => events.length > 1, 'the removal that was meant');
    expect(events.slice(1)).toEqual(['remove Service default/web']);
    expect(source.problems()).toEqual([]);
  });

  const many = Object.fromEntries(
    Array.from({ length: 10 }, (_, index) => [`s${index}.yaml`, service(`s${index}`)]),
  );

  test('most of ten Services are removed when the delay is over, and what comes back was never gone', async () => {
    const { path, source, events, until, write } = await synced(many, 60_000);
    const waits = (): boolean => source.problems().some(({ isDelayed }) => isDelayed === true);
    for (const name of Object.keys(many)) await unlink(join(path, name));
    await until(waits, 'the removal that waits');
    await write('other.yaml', service('other'));
    await until(() => events.includes('put Service default/other'), 'an addition meanwhile');
    for (const [name, text] of Object.entries(many)) await write(name, text);
    await until(() => !waits(), 'the end of the wait');
    expect(events).toEqual(['put Service default/other']);
  });

  test('most of ten Services are gone after the delay', async () => {
    const { path, source, events, until } = await synced(many, 300);
    for (const name of Object.keys(many)) await unlink(join(path, name));
    await until(() => source.problems().length > 0, 'the removal that waits');
    expect(events).toEqual([]);
    await until(() => events.length === 10, 'the removal');
    expect(source.problems()).toEqual([]);
  });

  test('a file of EndpointSlices that empties most of ten Services waits, too', async () => {
    const slices = Object.keys(many).map((_, index) => slice(`s${index}`));
    const files = { ...many, 'slices.yaml': slices.join('---\n') };
    const { path, source, events, until } = await synced(files, 60_000);
    await unlink(join(path, 'slices.yaml'));
    await until(() => source.problems().length > 0, 'the removal that waits');
    expect(events).toEqual([]);
    expect(source.problems()[0]?.reason).toMatch(/^10 of 10 Services/);
  });

  test('is silent after close, also if closed twice', async () => {
    const { source, events, write, path } = await synced({ 'a.yaml': service('a') });
    source.close();
    source.close();
    await write('b.yaml', service('b'));
    const other = record(path);
    await other.until(() => other.events.includes('synced'), 'another reader');
    expect(events).toEqual([]);
  });
});
