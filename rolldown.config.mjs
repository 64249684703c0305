// SPDX-License-Identifier: Apache-2.0
// src/ and the packages it uses -> dist/, and tools/ -> build/tools/: one program that starts with few files and only the code it
// can reach. Loading @kubernetes/client-node as it is costs every start a second of processor time and
// 70 MiB of memory for some 700 modules of generated types, of which nothing is used (ADR 11).

/** Packages whose modules do nothing when they are loaded, although they do not say so. */
const UNTOLD = /node_modules\/(?:@kubernetes\/client-node|openid-client|oauth4webapi)\//;

/**
 * V8 keeps a module's text for as long as it runs, in two bytes a character if a single one of them is
 * beyond Latin-1. What is left of those once comments are gone stands in texts and patterns.
 */
const ASCII_ONLY = {
  name: 'ascii-only',
  /** @param {unknown} _options @param {Record<string, { type: string, code: string }>} bundle */
  generateBundle(_options, bundle) {
    for (const part of Object.values(bundle)) {
      if (part.type === 'chunk') part.code = part.code.replace(/[^\0-\x7f]/g, escaped);
    }
  },
};

/**
 * What packages load at every start and use only where they are told to: undici's HTTP/2, which loads Node's, and the
 * API by which prom-client finds the traces of exemplars.
 */
const UNUSED = ['./client-h2.js', '@opentelemetry/api'];

const WITHOUT_UNUSED = {
  name: 'without-unused',
  /** @param {string} id */
  resolveId: (id) => (UNUSED.includes(id) ? `\0unused:${id}` : null),
  /** @param {string} id */
  load: (id) => (id.startsWith('\0unused:') ? 'module.exports = {};' : null),
};

const UNDICI = '\0undici';

/**
 * undici's index loads all that it has: caches, mocks, WebSocket. Requests are sent through a Pool, a
 * Client or, by client-node, an Agent; its fetch is there if anything ever calls it.
 */
const UNDICI_IN_PARTS = {
  name: 'undici-in-parts',
  /** @param {string} id */
  resolveId: (id) => (id === 'undici' ? UNDICI : null),
  /** @param {string} id */
  load(id) {
    if (id !== UNDICI) return null;
    const dispatchers = {
      Agent: 'agent',
      Client: 'client',
      Pool: 'pool',
      ProxyAgent: 'proxy-agent',
    };
    const exported = Object.entries(dispatchers).map(
      ([name, file]) => `export { default as ${name} } from 'undici/lib/dispatcher/${file}.js';`,
    );
    const fetched = `export const fetch = async (...args) =>
      (await import('undici/lib/web/fetch/index.js')).default.fetch(...args);`;
    // As its index does: request(), stream() and the others are methods of every dispatcher.
    const methods = `import api from 'undici/lib/api/index.js';
      import Dispatcher from 'undici/lib/dispatcher/dispatcher.js';
      Object.assign(Dispatcher.prototype, api);`;
    return [methods, ...exported, fetched].join('\n');
  },
};

const HTTP = '\0node:http';
/** What src and packages import of it. */
const OF_HTTP = ['Agent', 'STATUS_CODES', 'createServer', 'get', 'request'];

/**
 * Whoever imports node:http as a module reads each of its exports. From Node 22 on WebSocket is one, for which Node loads
 * an undici of its own: 30 ms of processor time, and 12 MiB.
 */
const HTTP_IN_PART = {
  name: 'http-in-part',
  /** @param {string} id @param {string | undefined} _importer @param {{ kind: string }} how */
  resolveId: (id, _importer, { kind }) =>
    /^(node:)?http$/.test(id) && kind === 'import-statement' ? HTTP : null,
  /** @param {string} id */
  load: (id) =>
    id === HTTP
      ? `const http = process.getBuiltinModule('node:http');
        export default http;
        export const { ${OF_HTTP.join(', ')} } = http;`
      : null,
};

/** @param {string} unit */
const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

const PARTS = {
  platform: 'node',
  plugins: [UNDICI_IN_PARTS, WITHOUT_UNUSED, HTTP_IN_PART, ASCII_ONLY],
  treeshake: { moduleSideEffects: [{ test: UNTOLD, sideEffects: false }] },
};

/** @param {string} dir */
const output = (dir) => ({
  dir,
  format: 'esm',
  sourcemap: true,
  // Names of functions and classes stay: they are what a stack trace shows. All others are shortened: V8 reads each
  // letter at every start, and keeps it.
  minify: {
    compress: false,
    mangle: { keepNames: { function: true, class: true } },
    codegen: { removeWhitespace: true },
  },
  entryFileNames: '[name].js',
  chunkFileNames: 'parts/[name].js',
});

/**
 * A group has also what its modules import, unless one before it has. `first` is what begin.ts runs before it loads anything else,
 * `asking` all of the commands that ask an agent. Else what two commands or more share is one file: divided by who loads it, it would be 60 files
 * for `run`, and to find, read and compile each takes a millisecond of a start (ADR 34).
 */
const FILES = {
  groups: [
    { name: 'first', test: /\/src\/(cli\/signals|sys\/process\/memory)\.ts$/, priority: 3 },
    { name: 'asking', test: /\/src\/cli\/commands\/(audit|bypass|status)\.ts$/, priority: 2 },
    { name: 'shared', test: /\/src\//, minShareCount: 2, priority: 1 },
  ],
};

/** Loads the parts, with what V8 has compiled of them at the build: that can be kept of CommonJS alone. */
const MAIN = { ...PARTS, input: { main: 'src/main.ts' }, output: output('dist.fresh') };

const PRODUCT = {
  ...PARTS,
  // What one command loads later may be in a file that another has loaded already.
  checks: { ineffectiveDynamicImport: false },
  input: { begin: 'src/begin.ts' },
  output: {
    ...output('dist.fresh/parts'),
    format: 'cjs',
    chunkFileNames: '[name].js',
    codeSplitting: FILES,
  },
};

const TOOLS = {
  ...PARTS,
  input: {
    main: 'tools/main.ts',
    'lab/client': 'tools/lab/client/client.ts',
    'lab/echo-server': 'tools/lab/client/echo-server.ts',
    'lab/stub-server': 'tools/lab/api/stub-server.ts',
    'lab/topology': 'tools/lab/topology.ts',
  },
  output: output('build/tools.fresh'),
};

/** PART=tools makes the tools, all else the product. */
export default process.env['PART'] === 'tools' ? TOOLS : [MAIN, PRODUCT];
