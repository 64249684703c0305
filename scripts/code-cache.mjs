// SPDX-License-Identifier: Apache-2.0
// `node scripts/code-cache.mjs FOLDER`: lets V8 compile the program that is in FOLDER, and keeps the result beside its parts. The manual
// is written by all commands, so all that they load is compiled. Needs build/js.
import { resolve } from 'node:path';
import { Parts } from '../build/js/sys/process/parts.js';

const folder = resolve(process.argv[2] ?? 'dist');
const parts = new Parts();
// A start loads these before it has set V8's flags, of which the result has a digest.
process.on('exit', () => parts.writeCaches(['begin.js', 'first.js', 'rolldown-runtime.js']));
process.stdout.write = () => true;
process.argv.splice(1, process.argv.length, resolve(folder, 'main.js'), 'man');
parts.load(resolve(folder, 'parts/begin.js'));
