// SPDX-License-Identifier: Apache-2.0
// src/ and the packages it uses -> dist/: one program that starts with few files and only the code it
// can reach. Loading @kubernetes/client-node as it is costs every start a second of processor time and
// 70 MiB of memory for some 700 modules of generated types, of which nothing is used (ADR 11).

/** Packages whose modules do nothing when they are loaded, although they do not say so. */
const UNTOLD = /node_modules\/(?:@kubernetes\/client-node|openid-client|oauth4webapi)\//;

export default {
  input: {
    main: 'src/main.ts',
    'demo/client': 'src/demo/client.ts',
    'demo/echo-server': 'src/demo/echo-server.ts',
    'demo/topology': 'src/demo/topology.ts',
  },
  platform: 'node',
  treeshake: { moduleSideEffects: [{ test: UNTOLD, sideEffects: false }] },
  output: {
    dir: 'dist',
    format: 'esm',
    sourcemap: true,
    entryFileNames: '[name].js',
    chunkFileNames: 'parts/[name].js',
  },
};
