// SPDX-License-Identifier: Apache-2.0
// What the documents say is so: links lead somewhere, commands exist, lists equal the code's. Runs as a
// stage of its own, after the build, because it asks the built program for its commands.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bpfCapabilities } from '../../../src/engines/capabilities.ts';
import { ERRORS, EXIT } from '../../../src/errors.ts';
import { TOPICS } from '../../../src/on-node/topics.ts';
import { FEATURES } from '../../../src/probe/features.ts';
import { TIERS } from '../../../src/probe/report.ts';
import { readManifests } from '../../../src/source/manifests/manifests.ts';
import { readTree, type SourceFile } from './source-file.ts';

const root = new URL('../../..', import.meta.url).pathname;
const tree = readTree(root);
const documents = tree.filter(({ path }) => path.endsWith('.md'));

/** All matches of a pattern with a group, as `file:line: group`, that a condition refuses. */
function refused(
  files: readonly SourceFile[],
  pattern: RegExp,
  isFine: (found: string, file: SourceFile) => boolean,
): readonly string[] {
  return files.flatMap((file) =>
    file.lines.flatMap((line, index) =>
      [...line.matchAll(pattern)]
        .map((match) => match[1] ?? '')
        .filter((found) => !isFine(found, file))
        .map((found) => `${file.path}:${index + 1}: ${found}`),
    ),
  );
}

const read = (path: string): string => readFileSync(posix.join(root, path), 'utf8');

/** The rows of a Markdown table whose first cell is code, as cells. */
const tableOf = (path: string): readonly (readonly string[])[] => rowsOf(read(path));

function rowsOf(text: string): readonly (readonly string[])[] {
  return text
    .split('\n')
    .filter((line) => /^\| (`|\d)/.test(line))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

describe('documents', () => {
  test('links lead to files of the tree', () => {
    const isThere = (target: string, { path }: SourceFile): boolean =>
      /^[a-z]+:/.test(target) || existsSync(posix.join(root, posix.dirname(path), target));
    expect(refused(documents, /\]\(([^)#]+)[^)]*\)/g, isThere)).toEqual([]);
  });

  test('paths named in code style exist', () => {
    const isThere = (path: string): boolean => existsSync(posix.join(root, path));
    const path = /`((?:src|bpf|native|test|scripts|docs|examples|deploy)\/[\w./-]*)`/g;
    expect(refused(documents, path, isThere)).toEqual([]);
  });

  test('npm scripts exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const isScript = (name: string): boolean => Object.hasOwn(scripts, name);
    expect(refused(documents, /npm run ([\w:]+)/g, isScript)).toEqual([]);
  });

  test('no path of one machine is in the tree', () => {
    // Split, so that it does not find itself.
    const machine = new RegExp(`(/${'work'}/|/${'home'}/[a-z]|/${'root'}/)`, 'g');
    expect(refused(tree, machine, () => false)).toEqual([]);
  });
});

test('diagrams are drawn from their sources as they are: else `npm run docs:diagrams`', async () => {
  const script = posix.join(root, 'scripts/docs/diagrams.mjs');
  const { stale } = (await import(script)) as { stale: () => readonly string[] };
  expect(stale()).toEqual([]);
});

describe('lists', () => {
  const [ofExitCodes = '', ofErrors = ''] = read('docs/errors.md').split('\n## Error codes\n');

  test('docs/errors.md has the codes of src/errors.ts, with their exit codes', () => {
    const listed = rowsOf(ofErrors).map(([code, exit]) => [code, Number(exit)]);
    expect(Object.fromEntries(listed)).toEqual(
      Object.fromEntries(Object.entries(ERRORS).map(([code, exit]) => [`\`${code}\``, exit])),
    );
  });

  test('and the exit codes', () => {
    expect(rowsOf(ofExitCodes).map(([code]) => Number(code))).toEqual(Object.values(EXIT));
  });

  test('docs/probe.md has the features of src/probe/features.ts, and the tiers', () => {
    const [beforeFeatures = '', ofFeatures = ''] = read('docs/probe.md').split('\n## Features\n');
    const features = Object.entries(FEATURES).map(([name, { neededFor, consequence }]) => [
      ...[`\`${name}\``, neededFor, consequence],
    ]);
    const isShared = (of: string | undefined): boolean =>
      features.filter(([, , consequence]) => consequence === of).length > 4;
    const shared = new Set(features.map(([, , of]) => of).filter(isShared));
    expect(rowsOf(ofFeatures)).toEqual([
      ...[...shared].map((one) => [
        features.flatMap(([name, , of]) => (of === one ? [name] : [])).join(', '),
        one,
      ]),
      ...features.filter(([, , of]) => !isShared(of)),
    ]);
    const tiers = rowsOf(beforeFeatures)
      .filter(({ length }) => length === 3)
      .map(([name]) => name);
    expect(tiers).toEqual(TIERS.map(({ name }) => name));
  });

  test('docs/install.md has what `probe` looks for on a node, and the README its titles', () => {
    const heading = '\n## Before you install: what to look at on your node\n';
    const sectionOf = (path: string): string =>
      read(path).split(heading)[1]?.split('\n## ')[0] ?? '';
    const topics = Object.entries(TOPICS).map(([name, row]) => [
      ...[`\`${name}\``, row.looksAt, row.matters, row.handled, row.advice],
    ]);
    expect(rowsOf(sectionOf('docs/install.md'))).toEqual(topics);
    const short = sectionOf('README.md').replaceAll('\n', ' ');
    expect(Object.values(TOPICS).filter(({ title }) => !short.includes(title))).toEqual([]);
  });

  test('ARCHITECTURE.md has the maps of bpf/common/maps.h and of the layers', () => {
    const listed = tableOf('ARCHITECTURE.md').flatMap(([cell = '']) => cell.match(/fl_\w+/g) ?? []);
    const headers = [
      'common/maps',
      'common/stored',
      'socket/maps',
      'packet/maps',
      'packet/conn/maps',
    ]
      .map((header) => read(`bpf/${header}.h`))
      .join('\n');
    const defined = [...headers.matchAll(/^(?:\} |CONN_ARRAY\()(fl_\w+)(?: SEC|,)/gm)].map(
      (match) => match[1],
    );
    expect(listed.sort()).toEqual(defined.sort());
  });
});

test('the README says what is not served yet, as the capabilities have it', () => {
  const [, table = ''] = read('README.md').split('| Works | Not yet by eBPF |');
  const notYet = (table.split('\n\n')[0] ?? '').replace(/^\|[^|]*\|/gm, '');
  const { serves, changesSctpPorts } = bpfCapabilities({ packets: true });
  const { host, outside: packet } = serves;
  const lacking = {
    'packets from outside': packet === undefined,
    "SCTP to endpoints whose port is not the Service's": !changesSctpPorts,
    'SCTP from processes of the node': !host?.protocols.includes('SCTP'),
    loadBalancerSourceRanges: packet?.hasSourceRanges !== true,
  };
  const said = Object.keys(lacking).map((what) => [what, notYet.includes(what)]);
  expect(Object.fromEntries(said)).toEqual(lacking);
});

describe('commands', () => {
  const help = execFileSync(process.execPath, [posix.join(root, 'dist/main.js'), '--help'], {
    encoding: 'utf8',
  });
  const commands = [...help.matchAll(/^ {2}([a-z]+) /gm)].map((match) => match[1] ?? '');

  test('docs/fairlead.8 is the manual page of the program as it is: npm run man', () => {
    const page = execFileSync(process.execPath, [posix.join(root, 'dist/main.js'), 'man'], {
      encoding: 'utf8',
    });
    expect(page).toBe(read('docs/fairlead.8'));
    for (const command of commands.filter((name) => name !== 'help')) {
      expect(page).toMatch(new RegExp(`^\\.SS fairlead ${command}`, 'm'));
    }
  });

  test('the manual page renders without a warning', () => {
    const { error, stderr, stdout } = spawnSync('man', ['-l', '--warnings', 'docs/fairlead.8'], {
      cwd: root,
      encoding: 'utf8',
      env: { ...process.env, MANWIDTH: '100', LC_ALL: 'C.UTF-8' },
    });
    if (error !== undefined) return; // No man here.
    expect(stderr).toBe('');
    expect(stdout).toContain('--hostname-override <string>');
  });

  test('the program has every command that a document uses', () => {
    const isCommand = (name: string): boolean => commands.includes(name);
    const use = /(?:dist\/main\.js|`fairlead|\/opt\/fairlead\/dist\/main\.js) ([a-z]+)/g;
    expect(refused(documents, use, isCommand)).toEqual([]);
  });

  test('the README names every command that the program has', () => {
    const readme = read('README.md');
    const isNamed = (name: string): boolean =>
      readme.includes(`main.js ${name}`) || readme.includes(`npm run ${name}`);
    expect(commands.filter((name) => name !== 'help' && !isNamed(name))).toEqual([]);
  });
});

test('examples are read without a problem', async () => {
  const { changes, problems } = await readManifests(posix.join(root, 'examples'));
  expect(problems).toEqual([]);
  expect(changes.length).toBeGreaterThan(5);
});
