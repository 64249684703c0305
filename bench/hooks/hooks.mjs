// SPDX-License-Identifier: Apache-2.0
// What the hooks add to a socket call: the same calls of one C program (prober.c) with the programs
// attached to its cgroup and without them, in turns, in a network namespace of their own; and beside
// it what the kernel itself counts for each program (bpf_stats), in rounds of their own because
// counting slows programs down. Needs root and `npm run build`.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import {
  encodeBackend,
  encodeFrontend,
  encodeFrontendKey,
  encodeU32,
  POSITION,
  SLOTS_PER_BLOCK,
} from '../../build/js/engines/bpf/layout/layout.js';
import { findCgroup2, insideCgroup, removeCgroup } from '../../build/js/sys/cgroup.js';
import { netnsCookie, openObject } from '../../build/js/sys/native.js';
import {
  addNamespaces,
  deleteNamespaces,
  insideNamespace,
  ipBatch,
} from '../../build/js/sys/netns.js';

const ROUNDS = 41;
const SOCKETS = 256;
const DATAGRAMS = 2_048;
/** Packets to these networks leave through a device that drops them. */
const SINK = '10.200.0.1';
const STATISTICS = '/proc/sys/kernel/bpf_stats_enabled';

/** Section of each program -> enum bpf_attach_type. */
const HOOKS = {
  'cgroup/recvmsg4': 19,
  'cgroup/getpeername4': 29,
  'cgroup/sock_release': 34,
  'cgroup/sendmsg4': 14,
  'cgroup/connect4': 10,
};

const SERVICES = [
  { address: '10.96.0.1', port: 80, protocol: 'TCP', backend: { address: SINK, port: 8080 } },
  { address: '10.96.0.1', port: 53, protocol: 'UDP', backend: { address: SINK, port: 5353 } },
  {
    address: '10.96.0.2',
    port: 53,
    protocol: 'UDP',
    backend: { address: '127.0.0.1', port: 5353 },
  },
  {
    ...{ address: '10.96.0.3', port: 80, protocol: 'TCP', affinitySeconds: 10_800 },
    backend: { address: SINK, port: 8080 },
  },
];

/** Calls whose cost is asked for: line of the prober, and the figures it answers with by their names here. */
const CALLS = [
  { line: `tcp 10.96.0.1 80 ${SOCKETS}`, figures: { connect: 'connect TCP', close: 'close TCP' } },
  { line: `tcp 10.96.0.3 80 ${SOCKETS}`, figures: { connect: 'connect TCP, affinity' } },
  {
    line: `udp 10.96.0.1 53 ${SOCKETS}`,
    figures: { connect: 'connect UDP', getpeername: 'getpeername', close: 'close UDP' },
  },
  { line: `udp ${SINK} 53 ${SOCKETS}`, figures: { connect: 'connect, no Service' } },
  { line: `sendto 10.96.0.1 53 ${DATAGRAMS}`, figures: { sendto: 'sendto' } },
  { line: `sendto ${SINK} 53 ${DATAGRAMS}`, figures: { sendto: 'sendto, no Service' } },
  { line: `recvfrom 127.0.0.1 5353 ${DATAGRAMS}`, figures: { recvfrom: 'recvfrom' } },
];

/** @param {string} path */
const inRepository = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** A low one of many rounds: what the machine's other work added little to. @param {readonly number[]} values */
function low(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 10)] ?? Number.NaN;
}

const PLAIN = { masquerade: false, keepsLocalClient: false, hasSourceRanges: false };

/** Service N has backend N, in block N. @param {import('../../build/js/sys/native.js').BpfObject} object */
function fillTables(object) {
  const blocks = new Uint32Array(object.map('fl_slot_block').mmap());
  const backends = new Uint8Array(object.map('fl_backend4').mmap());
  for (const [index, { backend, affinitySeconds = 0, ...frontend }] of SERVICES.entries()) {
    const serviceId = index + 1;
    const value = { ...backend, state: 1, isLocal: false, generation: 1, serviceId };
    backends.set(encodeBackend(value, 'IPv4'), serviceId * 16);
    blocks.set([serviceId, serviceId], serviceId * SLOTS_PER_BLOCK);
    const key = { ...frontend, family: 'IPv4' };
    const rule = { block: serviceId, members: 1, kind: 'random', whenEmpty: 'reject', ...PLAIN };
    const rules = Object.fromEntries(Object.keys(POSITION).map((position) => [position, rule]));
    const record = { key, rules, serviceId, affinitySeconds };
    object.map('fl_frontend').put(encodeU32(serviceId), encodeFrontend(record));
    object.map('fl_frontend4').put(encodeFrontendKey(key), encodeU32(serviceId));
  }
}

function load(file) {
  const object = openObject(readFileSync(file), { name: 'hooks' });
  object.setRodata('node_netns_cookie', new Uint8Array(new BigUint64Array([netnsCookie()]).buffer));
  object.setRodata('can_set_retval', Uint8Array.of(1));
  object.load();
  fillTables(object);
  return object;
}

const programsOf = (object) =>
  object.programs
    .filter(({ section }) => section in HOOKS)
    .map(({ name, section }) => ({ program: object.program(name), type: HOOKS[section] }));

const attachAll = (object, cgroup) =>
  programsOf(object).map(({ program, type }) => program.attachCgroup(cgroup, type));

/** One line to the prober, one line back. */
function startProber(file, namespace, cgroup) {
  const [shell, ...args] = insideCgroup(cgroup, insideNamespace(namespace, [file]));
  const child = spawn(shell, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (line) => {
    child.stdin.write(`${line}\n`);
    const { value, done } = await answers.next();
    if (done) throw new Error(`the prober ended at: ${line}`);
    const words = value.split(' ');
    return Object.fromEntries(
      words.flatMap((word, at) => (at % 2 === 0 ? [[word, Number(words[at + 1])]] : [])),
    );
  };
  return { ask, end: () => child.stdin.end() };
}

/** Nanoseconds per call in one round, by the names of CALLS. */
async function measureRound(prober) {
  const round = {};
  for (const { line, figures } of CALLS) {
    const answer = await prober.ask(line);
    for (const [figure, name] of Object.entries(figures)) round[name] = answer[figure];
  }
  return round;
}

/** Runs and nanoseconds of each of our programs, from the fdinfo of the handles this process holds. */
function readStatistics(object) {
  const names = new Map(programsOf(object).map(({ program }) => [program.info.id, program.name]));
  const statistics = {};
  for (const fd of readdirSync('/proc/self/fdinfo')) {
    let text = '';
    try {
      text = readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8');
    } catch {
      continue; // The handle of the listing itself.
    }
    const field = (name) => Number(new RegExp(`^${name}:\\s*(\\d+)$`, 'm').exec(text)?.[1]);
    const name = names.get(field('prog_id'));
    if (name !== undefined) {
      statistics[name] = { runs: field('run_cnt'), ns: field('run_time_ns') };
    }
  }
  return statistics;
}

/** Nanoseconds of each program per run, as the kernel counts them. */
async function measurePrograms(object, cgroup, prober) {
  const links = attachAll(object, cgroup);
  const before = readFileSync(STATISTICS, 'utf8');
  const perRun = {};
  writeFileSync(STATISTICS, '1');
  try {
    for (const { line, figures } of CALLS) {
      const rounds = {};
      for (let round = 0; round < ROUNDS; round += 1) {
        const earlier = readStatistics(object);
        await prober.ask(line);
        for (const [program, { runs, ns }] of Object.entries(readStatistics(object))) {
          const newRuns = runs - earlier[program].runs;
          if (!(newRuns >= SOCKETS)) continue; // NaN: it never ran
          rounds[program] ??= [];
          rounds[program].push((ns - earlier[program].ns) / newRuns);
        }
      }
      const [what] = Object.values(figures);
      for (const [program, ns] of Object.entries(rounds)) {
        perRun[`${program.slice(3)} (${what})`] = low(ns);
      }
    }
  } finally {
    writeFileSync(STATISTICS, before);
    for (const link of links) link.detach();
  }
  return perRun;
}

/** Rounds with each object in turn and with none, so that all of them meet the same machine. */
async function measureCalls(objects, cgroup, prober) {
  const rounds = [undefined, ...objects].map((object) => ({ object, figures: [] }));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { object, figures } of rounds) {
      const links = object === undefined ? [] : attachAll(object, cgroup);
      figures.push(await measureRound(prober));
      for (const link of links) link.detach();
    }
  }
  const names = CALLS.flatMap(({ figures }) => Object.values(figures));
  const [without = {}, ...each] = rounds.map(({ figures }) =>
    Object.fromEntries(names.map((name) => [name, low(figures.map((round) => round[name]))])),
  );
  return each.map((figures) =>
    Object.fromEntries(
      names.map((name) => [
        name,
        { addedNs: figures[name] - without[name], withoutNs: without[name] },
      ]),
    ),
  );
}

/**
 * @param {readonly string[]} [files] compiled socket layers to compare
 * @returns for each what every hook adds, by call, and ns per run, by program
 */
export async function measureHooks(files = [inRepository('build/bpf/sock.bpf.o')]) {
  const name = `fl-bench-${process.pid}`;
  const cgroup = join(findCgroup2(), name);
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-bench-'));
  const binary = join(folder, 'prober');
  execFileSync('cc', [
    '-O2',
    '-Wall',
    '-Werror',
    '-o',
    binary,
    inRepository('bench/hooks/prober.c'),
  ]);
  const objects = files.map(load);
  try {
    mkdirSync(cgroup);
    addNamespaces([name]);
    await ipBatch(
      [
        ...['link set lo up', 'link add sink type veth peer name end', 'link set sink arp off up'],
        ...['address add 10.200.255.254/16 dev sink', 'route add 10.96.0.0/16 dev sink'],
      ],
      name,
    );
    const prober = startProber(binary, name, cgroup);
    await prober.ask('from 10.96.0.2 53 0');
    const calls = await measureCalls(objects, cgroup, prober);
    const measured = [];
    for (const [index, object] of objects.entries()) {
      measured.push({
        calls: calls[index],
        programs: await measurePrograms(object, cgroup, prober),
      });
    }
    prober.end();
    return measured;
  } finally {
    for (const object of objects) object.close();
    removeCgroup(cgroup);
    deleteNamespaces([name]);
    rmSync(folder, { recursive: true });
  }
}

/** @param {Awaited<ReturnType<typeof measureHooks>>} figures */
export function printHooks({ calls, programs }) {
  console.log('socket calls: what the hooks add, ns (call without hooks, ns)');
  for (const [name, { addedNs, withoutNs }] of Object.entries(calls)) {
    console.log(
      `  ${name.padEnd(24)} ${addedNs.toFixed(0).padStart(5)}  (${withoutNs.toFixed(0)})`,
    );
  }
  console.log('programs: ns per run by bpf_stats, which adds its own clock');
  for (const [name, ns] of Object.entries(programs)) {
    console.log(`  ${name.padEnd(40)} ${ns.toFixed(0).padStart(5)}`);
  }
}
