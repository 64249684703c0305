// SPDX-License-Identifier: Apache-2.0
// node modules.mjs FOLDER OUTPUT NAME...: copies these modules, which a kernel's package has below FOLDER, and those that they
// need, uncompressed into OUTPUT; of `NAME?` only if it is a module. Their names begin with numbers, in the order in which they can be loaded.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder, output, ...names] = process.argv.slice(2);
if (folder === undefined || output === undefined) {
  throw new Error('usage: node modules.mjs FOLDER OUTPUT NAME...');
}

/** @type {Map<string, string>} */
const paths = new Map();
for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
  const [, name] = /^(.+)\.ko(\.xz)?$/.exec(entry.name) ?? [];
  if (name !== undefined) paths.set(name.replaceAll('-', '_'), join(entry.parentPath, entry.name));
}

/** @type {Map<string, Buffer>} */
const found = new Map();

/** Those that it needs come first. @param {string} name */
function add(name) {
  if (found.has(name)) return;
  const path = paths.get(name);
  // Or it is part of the kernel.
  if (path === undefined) throw new Error(`the package has no module ${name}`);
  const bytes = path.endsWith('.xz')
    ? execFileSync('xz', ['--decompress', '--stdout', path], { maxBuffer: 1 << 28 })
    : readFileSync(path);
  for (const other of needs(bytes)) add(other);
  found.set(name, bytes);
}

/** From its section .modinfo. @param {Buffer} module */
function needs(module) {
  const text = /\0depends=([^\0]*)\0/.exec(module.toString('latin1'))?.[1] ?? '';
  return text.split(',').flatMap((name) => (name === '' ? [] : [name.replaceAll('-', '_')]));
}

for (const name of names) {
  const plain = name.replace('?', '');
  if (plain === name || paths.has(plain)) add(plain);
}
mkdirSync(output, { recursive: true });
for (const [index, [name, bytes]] of [...found].entries()) {
  writeFileSync(join(output, `${String(index).padStart(3, '0')}-${name}.ko`), bytes);
}
