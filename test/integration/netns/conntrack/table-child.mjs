// SPDX-License-Identifier: Apache-2.0
// In a network namespace of its own: makes, reads and deletes entries of connection tracking as it is told, a line of
// JSON for each command.
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';

const load = (path) => import(join(process.argv[2], path));
const { readConntrack, deleteConntrack } = await load('sys/conntrack/conntrack-table.js');
const { messagesIn, joined } = await load('sys/netlink/wire.js');
const { openNetlink } = await load('sys/native.js');

function send(requests) {
  const socket = openNetlink({ protocol: 12 });
  const errnos = [];
  for (let at = 0; at < requests.length; at += 64) {
    socket.send(joined(requests.slice(at, at + 64)));
    for (let answer = socket.receive(); answer !== undefined; answer = socket.receive()) {
      for (const { body } of messagesIn(answer)) errnos.push(-Buffer.from(body).readInt32LE(0));
    }
  }
  socket.close();
  return { errnos: errnos.filter((errno) => errno !== 0) };
}

/** Variants of one request, with other sources: its source address and port are at these offsets. */
function fill({ request, count, addressAt, portAt }) {
  const template = Buffer.from(request, 'base64');
  let errnos = [];
  for (let made = 0; made < count; made += 6400) {
    const variants = Array.from({ length: Math.min(6400, count - made) }, (_, index) => {
      const bytes = Buffer.from(template);
      for (const at of addressAt) bytes.writeUInt16BE((made + index) >> 8, at + 2);
      for (const at of portAt) bytes.writeUInt16BE(1024 + ((made + index) & 0xff), at);
      return bytes;
    });
    errnos = errnos.concat(send(variants).errnos);
  }
  return { errnos };
}

async function list({ family }) {
  const flows = [];
  const dump = await readConntrack({ family, wants: () => true }, async (entries) => {
    flows.push(...entries.map(({ identity: _, ...flow }) => flow));
  });
  return { ...dump, flows };
}

/** Measures the most CPU time between two turns of the event loop: in it is nothing that other processes do. */
function watchTurns() {
  let [longestUs, last, isOver] = [0, process.cpuUsage(), false];
  const turn = () => {
    const { user, system } = process.cpuUsage(last);
    last = process.cpuUsage();
    longestUs = Math.max(longestUs, user + system);
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  return () => {
    isOver = true;
    return longestUs / 1000;
  };
}

async function remove({ family, protocol, port }) {
  let deleted = 0;
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  const endTurns = watchTurns();
  const startedMs = performance.now();
  const dump = await readConntrack(
    { family, wants: (...entry) => entry[0] === protocol && entry[1] === port },
    async (entries) => {
      deleted += await deleteConntrack(entries);
    },
  );
  const turnMs = endTurns();
  delays.disable();
  const [p99Ms, maxMs] = [delays.percentile(99), delays.max].map((ns) => ns / 1e6);
  const rssMiB = process.memoryUsage.rss() / 2 ** 20;
  return {
    ...dump,
    deleted,
    elapsedMs: performance.now() - startedMs,
    p99Ms,
    maxMs,
    turnMs,
    rssMiB,
  };
}

const commands = {
  track: ({ requests }) => send(requests.map((text) => Buffer.from(text, 'base64'))),
  fill,
  list,
  remove,
};

process.stdout.write('{}\n');
for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...input } = JSON.parse(line);
  let answer;
  try {
    answer = await commands[command](input);
  } catch (error) {
    answer = { code: error.code, message: error.message };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
