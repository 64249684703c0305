// SPDX-License-Identifier: Apache-2.0
// The program's files, with what V8 has compiled of them before. To compile them at each start takes more than to run them.
// V8 refuses what another version or other flags of its own have compiled: then a file is compiled, as without.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { Script } from 'node:vm';

const DIGEST_BYTES = 20;

/**
 * Of a file's text, of which V8 compares the length alone, and of what V8 has compiled of it, of which V8 compares nothing: with a
 * wrong bit the process ends by a signal.
 */
const digestOf = (text: string, compiled: Buffer): Buffer =>
  createHash('sha1').update(text, 'latin1').update(compiled).digest();

/** Only one version of Node, on one kind of processor, has use for it. */
const cachePath = (path: string): string =>
  join(dirname(path), `${process.version}-${process.arch}`, basename(path));

type Require = (id: string) => unknown;
type Body = (
  exports: object,
  require: Require,
  module: object,
  file: string,
  folder: string,
) => void;

export class Parts {
  readonly #exports = new Map<string, { exports: object }>();
  /** What has been loaded, by its path. */
  readonly scripts = new Map<string, Script>();

  /** @returns what this file, a CommonJS module of ASCII alone, exports */
  load(path: string): object {
    const known = this.#exports.get(path);
    if (known !== undefined) return known.exports;
    const module = { exports: {} };
    this.#exports.set(path, module);
    const outside = createRequire(path);
    const folder = dirname(path);
    const require: Require = (id) =>
      id.startsWith('./') ? this.load(join(folder, id)) : outside(id);
    this.#compile(path)(module.exports, require, module, path, folder);
    return module.exports;
  }

  /** What V8 has compiled so far, for later starts: a step of the build. Not of `without`, which later starts load before they set V8's flags. */
  writeCaches(without: readonly string[]): void {
    for (const [path, script] of this.scripts) {
      if (without.includes(basename(path))) continue;
      const compiled = script.createCachedData();
      const digest = digestOf(readFileSync(path, 'latin1'), compiled);
      mkdirSync(dirname(cachePath(path)), { recursive: true });
      writeFileSync(cachePath(path), Buffer.concat([digest, compiled]));
    }
  }

  #compile(path: string): Body {
    const text = readFileSync(path, 'latin1');
    const wrapped = `(function(exports,require,module,__filename,__dirname){${text}\n})`;
    const cachedData = cached(path, text);
    const script = new Script(wrapped, {
      filename: path,
      ...(cachedData !== undefined && { cachedData }),
    });
    this.scripts.set(path, script);
    return script.runInThisContext() as Body;
  }
}

function cached(path: string, text: string): Buffer | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(cachePath(path));
  } catch {
    return undefined;
  }
  const compiled = bytes.subarray(DIGEST_BYTES);
  const isWhole = digestOf(text, compiled).equals(bytes.subarray(0, DIGEST_BYTES));
  return isWhole ? compiled : undefined;
}
