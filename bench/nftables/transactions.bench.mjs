// SPDX-License-Identifier: Apache-2.0
// What one transaction takes in a table of nftables with 1,000 and 10,000 Services of 10 endpoints: by the program nft, by libnftables
// in this process, and by messages of our own, in turn: median and 99th percentile; and what reading the table takes. Needs root and a
// network namespace of its own: `npm run bench:nftables [-- SERVICES...]`. libnftables is called by koffi, of which FAIRLEAD_BENCH_KOFFI names the installed folder;
// without it that way is left out.
import { createRequire } from 'node:module';
import { familyTable } from '../../build/js/engines/nftables/kernel/family-table.js';
import { messagesOf } from '../../build/js/engines/nftables/kernel/messages/transaction.js';
import { nftOf } from '../../build/js/engines/nftables/kernel/nft.js';
import { createRenderer } from '../../build/js/engines/nftables/rows/render.js';
import { parseTable } from '../../build/js/engines/nftables/rules/parse.js';
import { applyDiff } from '../../build/js/engines/nftables/state/apply.js';
import { diffTable } from '../../build/js/engines/nftables/state/diff.js';
import { scriptOf } from '../../build/js/engines/nftables/state/script.js';
import { wantedSince } from '../../build/js/engines/nftables/state/wanted.js';
import { createPlanner } from '../../build/js/plan/planner.js';
import { run } from '../../build/js/sys/exec.js';
import { createNftSocket } from '../../build/js/sys/netlink/nft/batch.js';
import { SETTINGS, serviceChange, sliceChange } from '../plan-objects.mjs';

const CHANGES = 41;
const FAMILY = 'IPv4';
const nft = nftOf(FAMILY);
const socket = createNftSocket();
const quantile = (values, share) =>
  values.toSorted((a, b) => a - b)[Math.ceil(share * values.length) - 1];

/** undefined without koffi. @returns {undefined | ((script: string) => Promise<void>)} */
function libnftables() {
  const folder = process.env.FAIRLEAD_BENCH_KOFFI;
  if (folder === undefined) return undefined;
  const koffi = createRequire(`${folder}/`)('koffi');
  const library = koffi.load('libnftables.so.1');
  const context = library.func('void *nft_ctx_new(uint32_t)')(0);
  const runScript = library.func('int nft_run_cmd_from_buffer(void *, const char *)');
  library.func('int nft_ctx_buffer_error(void *)')(context);
  const errors = library.func('const char *nft_ctx_get_error_buffer(void *)');
  return (script) =>
    new Promise((resolve, reject) => {
      runScript.async(context, script, (error, code) => {
        if (error !== null || code !== 0) reject(error ?? new Error(errors(context)));
        else resolve();
      });
    });
}

async function byNft(script) {
  const failure = await nft.write(script);
  if (failure !== undefined) throw new Error(failure.reason);
}

const viaLibrary = libnftables();
const WAYS = {
  nft: ({ script }) => byNft(script),
  ...(viaLibrary === undefined ? {} : { libnftables: ({ script }) => viaLibrary(script) }),
  messages: async ({ diff, held }) => {
    const messages = messagesOf(diff, FAMILY, held);
    if (messages === undefined) throw new Error('cannot be encoded');
    const errno = await socket.send(messages);
    if (errno !== undefined) throw new Error(errno);
  },
};

/** A slice with fewer endpoints, so that the rule differs, too. */
function shorter(service) {
  const change = sliceChange(service, 0);
  return { ...change, object: { ...change.object, endpoints: change.object.endpoints.slice(1) } };
}

const removed = ({ ref }) => ({ type: 'delete', ref });

/** Of the Service with that number: the changes are done one after the other. */
const KINDS = {
  'one backend replaced': (number) => [sliceChange(number, 1)],
  'one backend fewer': (number) => [shorter(number)],
  'Service removed': (number) => [serviceChange(number), sliceChange(number, 0)].map(removed),
  'Service added': (number) => [serviceChange(number), sliceChange(number, 0)],
};

async function measure(services) {
  await run('nft', ['flush', 'ruleset']);
  const planner = createPlanner(SETTINGS);
  const renderer = createRenderer({ masqueradeBit: 14, isTcpLiberal: false });
  const rendered = () => renderer.render(planner.current()).find((one) => one.family === FAMILY);
  for (let number = 0; number < services; number += 1)
    planner.apply([serviceChange(number), sliceChange(number, 0)]);
  let before = rendered();
  const ownCpu = () => process.cpuUsage().user / 1000 + process.cpuUsage().system / 1000;
  let startedAt = performance.now();
  await familyTable(FAMILY, nft).write(before, 'all', false);
  const rows = [[services, 'all', 'nft', performance.now() - startedAt]];
  startedAt = performance.now();
  const held = parseTable(await nft.list());
  rows.push([services, 'read', 'nft', performance.now() - startedAt]);
  let number = 7;
  for (const [kind, changesOf] of Object.entries(KINDS)) {
    const at = number;
    const walls = new Map(Object.keys(WAYS).map((way) => [way, []]));
    const cpus = new Map(Object.keys(WAYS).map((way) => [way, []]));
    for (let round = 0; round < CHANGES; round += 1) {
      for (const [way, write] of Object.entries(WAYS)) {
        planner.apply(
          changesOf(kind === 'one backend replaced' ? at + number++ : number++ % services),
        );
        const now = rendered();
        const diff = diffTable(held, wantedSince(before, now), false);
        const script = scriptOf(diff, FAMILY, true);
        const cpu = ownCpu();
        startedAt = performance.now();
        await write({ diff, script, held });
        walls.get(way).push(performance.now() - startedAt);
        cpus.get(way).push(ownCpu() - cpu);
        applyDiff(held, diff);
        before = now;
      }
    }
    if (kind === 'Service removed') number = at;
    for (const [way, all] of walls)
      rows.push([
        services,
        kind,
        way,
        quantile(all, 0.5),
        quantile(all, 0.99),
        quantile(cpus.get(way), 0.5),
      ]);
  }
  return rows;
}

const asked = process.argv.slice(2).map(Number);
console.log('| Services | what | by | p50 ms | p99 ms | own CPU ms |');
for (const services of asked.length > 0 ? asked : [1_000, 10_000])
  for (const row of await measure(services))
    console.log(
      `| ${row.map((cell) => (typeof cell === 'number' ? Number(cell.toFixed(1)).toLocaleString('en') : cell)).join(' | ')} |`,
    );
socket.close();
