// SPDX-License-Identifier: Apache-2.0
// node initramfs.mjs OUTPUT NAME=FILE...: an initial file system (cpio, newc) with these executables
// below its root, and the console that process 1 writes to.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

const EXECUTABLE = 0o100755;
const FOLDER = 0o040755;
const CHARACTER_DEVICE = 0o020600;
const CONSOLE = { major: 5, minor: 1 };

let inode = 0;

/** Every part of an archive member begins at a multiple of four. @param {Buffer} part */
const padded = (part) => Buffer.concat([part, Buffer.alloc(-part.length & 3)]);

/** @param {string} name @param {number} mode @param {Buffer} [data] @param {{major: number, minor: number}} [device] */
function member(name, mode, data = Buffer.alloc(0), device = { major: 0, minor: 0 }) {
  inode += 1;
  const path = Buffer.from(`${name}\0`);
  const fields = [inode, mode, 0, 0, 1, 0, data.length, 0, 0, device.major, device.minor];
  const hex = [...fields, path.length, 0].map((n) => n.toString(16).padStart(8, '0'));
  const head = Buffer.from(`070701${hex.join('')}`);
  return Buffer.concat([padded(Buffer.concat([head, path])), padded(data)]);
}

/** @type {Set<string>} */
const folders = new Set();

/** Those that are not there yet, the outer ones first. @param {string} path @returns {Buffer[]} */
function foldersOf(path) {
  const folder = dirname(path);
  if (folder === '.' || folders.has(folder)) return [];
  folders.add(folder);
  return [...foldersOf(folder), member(folder, FOLDER)];
}

const [output, ...files] = process.argv.slice(2);
if (output === undefined) throw new Error('usage: node initramfs.mjs OUTPUT NAME=FILE...');
writeFileSync(
  output,
  Buffer.concat([
    member('dev', FOLDER),
    member('dev/console', CHARACTER_DEVICE, undefined, CONSOLE),
    ...files.flatMap((file) => {
      const [name = '', path = ''] = file.split('=');
      return [...foldersOf(name), member(name, EXECUTABLE, readFileSync(path))];
    }),
    member('TRAILER!!!', 0),
  ]),
);
