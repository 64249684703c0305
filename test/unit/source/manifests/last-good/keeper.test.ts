// SPDX-License-Identifier: Apache-2.0
// When the objects that count are written, and which files of them are used.
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { CountedObject } from '../../../../../src/source/manifests/last-good/format.ts';
import { type Keeper, keeperOf } from '../../../../../src/source/manifests/last-good/keeper.ts';
import { until } from '../../../../support/until.ts';
import { FakeClock } from '../../apiserver/support/fake-clock.ts';

const FOLDER = '/etc/manifests';

const counted = (name: string): CountedObject => ({
  file: `${FOLDER}/${name}.yaml`,
  object: { apiVersion: 'v1', kind: 'Service', metadata: { name, namespace: 'default' } },
});

function stage({ below = '' } = {}) {
  const runDir = mkdtempSync(join(tmpdir(), 'run-'));
  onTestFinished(() => rmSync(runDir, { recursive: true, force: true }));
  const path = join(runDir, below, 'kept');
  const clock = new FakeClock();
  const lines: string[] = [];
  const objects: CountedObject[] = [];
  const take = (level: string) => (fields: object, text?: string) => {
    const { reason } = fields as { readonly reason?: string };
    lines.push([level, text, reason].filter((part) => part !== undefined).join(': '));
  };
  const log = { info: take('info'), warn: take('warn') };
  const open = (folder = FOLDER): Keeper =>
    keeperOf({ path, folder, clock, log } as never)(() => [...objects]);
  const names = async (keeper = open()): Promise<readonly string[]> =>
    (await keeper.recall()).map(({ manifest }) => manifest.ref.name);
  const written = (): Promise<boolean> => until(() => existsSync(path), 'the file');
  return { runDir, path, clock, lines, objects, open, names, written };
}

describe('writing', () => {
  test('a hundred changes are one write, which only root can read, and nothing else is left', async () => {
    const { runDir, path, clock, objects, open, names, written } = stage();
    const keeper = open();
    for (let index = 0; index < 100; index += 1) {
      objects.push(counted(`s${index}`));
      keeper.changed();
      clock.advance(1);
    }
    expect(clock.delaysMs()).toEqual([100]);
    clock.advance(99);
    expect(readdirSync(runDir)).toEqual([]);
    clock.advance(1);
    await written();
    expect(readdirSync(runDir)).toEqual(['kept']);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(await names()).toEqual(objects.map((_, index) => `s${index}`));
    expect(clock.delaysMs()).toEqual([]);
  });

  test('what took long is not done again soon; a change in the meantime is not lost', async () => {
    const { clock, objects, open, names, written } = stage();
    const keeper = open();
    keeper.changed();
    clock.advance(200);
    clock.advance(50);
    objects.push(counted('later'));
    keeper.changed();
    await written();
    const [delayMs] = await until(() => clock.delaysMs().length > 0 && clock.delaysMs(), 'a wait');
    expect(delayMs).toBe(20 * 50);
    clock.advance(20 * 50 - 1);
    expect(await names()).toEqual([]);
    clock.advance(1);
    await until(async () => (await names()).length > 0, 'the second write');
    expect(await names()).toEqual(['later']);
  });

  test('at the close what is not written yet is written at once', async () => {
    const { objects, open, names, clock } = stage();
    const keeper = open();
    objects.push(counted('web'));
    keeper.changed();
    keeper.close();
    expect(await names()).toEqual(['web']);
    expect(clock.delaysMs()).toEqual([]);
  });

  test('a write that the close interrupts does not replace what the close has written', async () => {
    const { objects, open, names, clock } = stage();
    const keeper = open();
    objects.push(counted('before'));
    keeper.changed();
    clock.advance(200);
    objects.push(counted('after'));
    keeper.close();
    expect(await names()).toEqual(['before', 'after']);
    const other = stage();
    other.open().changed();
    other.clock.advance(200);
    await other.written();
    expect(await names()).toEqual(['before', 'after']);
  });

  test('without a change the close writes nothing: it may be that of a start that failed', async () => {
    const { runDir, open } = stage();
    const keeper = open();
    await keeper.recall();
    keeper.close();
    keeper.changed();
    expect(readdirSync(runDir)).toEqual([]);
  });

  test('a failure is told, and retried', async () => {
    const { runDir, clock, lines, open, written } = stage({ below: 'gone' });
    open().changed();
    clock.advance(200);
    await until(() => lines.length > 0, 'the line');
    expect(lines[0]).toMatch(/^warn: last good versions not kept for a restart: ENOENT/);
    await mkdir(join(runDir, 'gone'));
    await until(() => clock.delaysMs().length > 0, 'the wait');
    expect(clock.delaysMs()).toEqual([10_000]);
    clock.advance(10_000);
    await written();
    expect(lines).toHaveLength(1);
  });
});

describe('reading', () => {
  const HEADER = JSON.stringify({ format: 1, folder: FOLDER });
  const LINE = JSON.stringify(['a.yaml', counted('web').object]);
  const whole = gzipSync(`${HEADER}\n${LINE}\n`);

  test('what another agent has written', async () => {
    const { path, names, lines } = stage();
    writeFileSync(path, whole);
    expect(await names()).toEqual(['web']);
    expect(lines).toEqual(['info: last good versions read']);
  });

  test.each<readonly [string, Uint8Array | undefined, RegExp]>([
    ['missing', undefined, /^info: .*: ENOENT/],
    ['cut', whole.subarray(0, whole.length - 9), /^warn: .*: unexpected end of file$/],
    ['of zeros', new Uint8Array(100), /^warn: .*: incorrect header check$/],
    ['empty', gzipSync(''), /^warn: .*: it is of another version of fairlead$/],
    [
      'of another version',
      gzipSync(`${JSON.stringify({ format: 2, folder: FOLDER })}\n${LINE}\n`),
      /^warn: .*: it is of another version of fairlead$/,
    ],
    [
      'of another folder',
      gzipSync(`${JSON.stringify({ format: 1, folder: '/other' })}\n${LINE}\n`),
      /^warn: .*: it is of the folder \/other$/,
    ],
    [
      'without its last byte',
      gzipSync(`${HEADER}\n${LINE}`),
      /^warn: .*: its last line has no end$/,
    ],
    ['no JSON', gzipSync(`${HEADER}\n[\n`), /^warn: .*JSON/],
    ['without a name', gzipSync(`${HEADER}\n["a.yaml",{}]\n`), /^warn: .*: a line is no object$/],
    ['without a file', gzipSync(`${HEADER}\n[7,{}]\n`), /^warn: .*: a line is no object$/],
  ])('a file that is %s: nothing, and one line', async (_name, bytes, line) => {
    const { path, names, lines } = stage();
    if (bytes !== undefined) writeFileSync(path, bytes);
    expect(await names()).toEqual([]);
    expect(lines).toEqual([expect.stringMatching(line)]);
  });
});
