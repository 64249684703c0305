// SPDX-License-Identifier: Apache-2.0
// Nanoseconds per choice of a backend at 10,000 Services with 10 backends, random access, over an
// empty program and beside one hash entry per slot (bench/bpf/select.bpf.c), and of a miss. Needs root and
// `npm run build`. `--json` prints one line; `ratio` is hash-per-slot over ours.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  encodeBackend,
  encodeFrontend,
  encodeFrontendKey,
  encodeU32,
  SLOTS_PER_BLOCK,
} from '../build/js/engines/bpf/layout/layout.js';
import { openObject } from '../build/js/sys/native.js';

const SERVICES = 10_000;
const BACKENDS = 10;
const REPEAT = 1_000_000;
const ROUNDS = 9;
const PORT = 80;
/** @type {import('../build/js/engines/bpf/layout/layout.js').RuleValue} */
const RULE = {
  block: 0,
  members: 0,
  kind: 'random',
  whenEmpty: 'reject',
  masquerade: false,
  keepsLocalClient: false,
  hasSourceRanges: false,
};
/** @type {{family: 'IPv4', protocol: 'TCP'}} */
const TCP4 = { family: 'IPv4', protocol: 'TCP' };

/** @param {string} path */
const inRepository = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** @param {number} service */
const frontendAddress = (service) => `10.128.${service >> 8}.${service & 255}`;

/** @param {number} id */
const backendAddress = (id) => `10.${64 + (id >> 16)}.${(id >> 8) & 255}.${id & 255}`;

/** @param {import('../build/js/sys/native.js').BpfMap} map @param {Uint8Array[]} keys @param {Uint8Array[]} values */
function putAll(map, keys, values) {
  const { count, error } = map.putBatch(Buffer.concat(keys), Buffer.concat(values));
  if (error !== undefined || count !== keys.length) throw error ?? new Error('short batch');
}

/** @param {import('../build/js/sys/native.js').BpfObject} object */
function fillSets(object) {
  const blocks = new Uint32Array(object.map('fl_slot_block').mmap());
  const backends = new Uint8Array(object.map('fl_backend4').mmap());
  const frontends = new Uint8Array(object.map('fl_frontend').mmap());
  const keys = [];
  const values = [];
  for (let service = 0; service < SERVICES; service += 1) {
    blocks[service * SLOTS_PER_BLOCK] = 1 + service;
    for (let slot = 0; slot < BACKENDS; slot += 1) {
      const id = 1 + service * BACKENDS + slot;
      const address = backendAddress(id);
      const backend = { address, port: 8080, state: 1, isLocal: false, generation: 1 };
      backends.set(encodeBackend({ ...backend, serviceId: 1 + service }, 'IPv4'), id * 16);
      blocks[service * SLOTS_PER_BLOCK + 1 + slot] = id;
    }
    const key = { address: frontendAddress(service), port: PORT, ...TCP4 };
    const rule = { ...RULE, block: service, members: BACKENDS };
    const rules = { unknown: rule, host: rule, pod: rule, outside: rule };
    const value = { key, rules, serviceId: 1 + service, affinitySeconds: 0 };
    const bytes = encodeFrontend(value);
    frontends.set(bytes, (1 + service) * bytes.length);
    keys.push(encodeFrontendKey(key));
    values.push(encodeU32(1 + service));
  }
  putAll(object.map('fl_frontend4'), keys, values);
}

/** struct slot_key; slot 0 is the frontend itself. @param {number} service @param {number} slot */
function slotKey(service, slot) {
  const key = new Uint8Array(12);
  key.set([10, 128, service >> 8, service & 255, PORT, 0, slot, 0, 6]);
  return key;
}

/** @param {import('../build/js/sys/native.js').BpfObject} object */
function fillSlots(object) {
  const keys = [];
  const values = [];
  const ids = [];
  const backends = [];
  for (let service = 0; service < SERVICES; service += 1) {
    for (let slot = 0; slot <= BACKENDS; slot += 1) {
      const id = slot === 0 ? 0 : 1 + service * BACKENDS + slot - 1;
      const value = new DataView(new ArrayBuffer(12));
      value.setUint32(0, id, true);
      value.setUint16(4, slot === 0 ? BACKENDS : 0, true);
      keys.push(slotKey(service, slot));
      values.push(new Uint8Array(value.buffer));
      if (slot === 0) continue;
      const backend = new Uint8Array(12);
      backend.set([10, 64 + (id >> 16), (id >> 8) & 255, id & 255, 0x90, 0x1f, 6]);
      ids.push(new Uint8Array(Uint32Array.of(id).buffer));
      backends.push(backend);
    }
  }
  putAll(object.map('fl_slot'), keys, values);
  putAll(object.map('fl_slot_backend'), ids, backends);
}

/**
 * The lowest of all rounds for each program: what the machine's other work added least to.
 * @param {import('../build/js/sys/native.js').BpfObject} object
 */
function measure(object) {
  const notService = new Uint8Array(object.map('fl_not_service').mmap());
  /** A miss as if every range had Services, and as if none had. */
  const [look, skip] = [() => notService.fill(0), () => notService.fill(255)];
  const runs = [
    { name: 'fl_bench_empty', prepare: look },
    { name: 'fl_bench_set', prepare: look },
    { name: 'fl_bench_slot', prepare: look },
    { name: 'fl_bench_miss', prepare: look },
    { name: 'fl_bench_miss', prepare: skip },
  ].map((run) => ({ ...run, program: object.program(run.name) }));
  const best = runs.map(() => Number.POSITIVE_INFINITY);
  const dataIn = new Uint8Array(64);
  for (const { name, prepare, program } of runs) {
    prepare();
    const { retval } = program.testRun({ dataIn, repeat: 1000 });
    if (retval !== 2) throw new Error(`${name} did not do what it is measured for`);
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [at, { prepare, program }] of runs.entries()) {
      prepare();
      best[at] = Math.min(best[at], program.testRun({ dataIn, repeat: REPEAT }).durationNs);
    }
  }
  return best;
}

execFileSync('make', ['-s', '-C', inRepository('bpf'), 'bench'], { stdio: 'inherit' });
const object = openObject(readFileSync(inRepository('build/bpf-bench/select.bpf.o')), {
  name: 'select',
});
try {
  object.load();
  fillSets(object);
  fillSlots(object);
  const [emptyNs, setRunNs, slotRunNs, lookRunNs, skipRunNs] = measure(object);
  const oursNs = setRunNs - emptyNs;
  const hashPerSlotNs = slotRunNs - emptyNs;
  const figures = {
    ratio: hashPerSlotNs / oursNs,
    oursNs,
    hashPerSlotNs,
    missInServiceRangeNs: lookRunNs - emptyNs,
    missNs: skipRunNs - emptyNs,
    emptyNs,
    services: SERVICES,
    backendsPerService: BACKENDS,
    picksPerRun: REPEAT,
    rounds: ROUNDS,
  };
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify(figures));
  } else {
    console.log(`${SERVICES} Services x ${BACKENDS} backends, random access, ns per choice`);
    console.log(`  empty program   ${String(emptyNs).padStart(5)}  (taken off below)`);
    console.log(`  sets (ours)     ${String(oursNs).padStart(5)}`);
    console.log(`  hash per slot   ${String(hashPerSlotNs).padStart(5)}`);
    console.log(`  ratio           ${figures.ratio.toFixed(1).padStart(5)}`);
    console.log(`  a miss          ${String(figures.missNs).padStart(5)}`);
    console.log(`  … in a range of ClusterIPs ${figures.missInServiceRangeNs}`);
  }
} finally {
  object.close();
}
