// SPDX-License-Identifier: Apache-2.0
// node carry-child.mjs MODULES ADDON INPUT: migrates pinned maps as an agent does, prints each step, and ends itself by
// SIGKILL at the one that is named.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const [modules, addon, input] = process.argv.slice(2);
process.env.FAIRLEAD_ADDON = addon;
const { migrateMaps } = await import(join(modules, 'engines/bpf/kernel/migration/migrate.js'));
const { bpfRoot, maps, table, sizes, killAt } = JSON.parse(input);

const carry = await migrateMaps({
  ...{ bpfRoot, sizes, table: () => readFileSync(table) },
  layers: [{ name: 'maps', objects: [{ bytes: readFileSync(maps), rodata: [{}] }], hooks: [] }],
  step: (name) => {
    process.stdout.write(`${name}\n`);
    // Not process.exit(): nothing may be undone.
    if (name === killAt) process.kill(process.pid, 'SIGKILL');
  },
});
await carry.before('sockets');
await carry.before('flows');
await carry.linked();
await carry.after();
