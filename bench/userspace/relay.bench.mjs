// SPDX-License-Identifier: Apache-2.0
// TCP through the sockets of the agent (--engine userspace) beside a direct connection: bytes of one connection, requests over
// connections that are held, and connections that carry one request each. Client, relay and server are processes of their own.
// Medians of `--rounds 3`, in which the two alternate. `--seconds 3`, `--only bulk`, `--json` prints one line; `--relay streams` relays by Node's streams. Needs a build.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    relay: { type: 'string', default: 'addon' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const milliseconds = Number(values.seconds) * 1000;
const HELD = 64;
/** Connections that are opened at a time. */
const SHORT = 32;
const children = [];
const median = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];

async function start(name, task) {
  const child = fork(fileURLToPath(new URL(`${name}.mjs`, import.meta.url)), [
    JSON.stringify(task),
  ]);
  children.push(child);
  const [answer] = await once(child, 'message');
  return answer;
}

const { ports } = await start('server', {});
const { relayed } = await start('relay', { ports, relay: values.relay });
const workloads = [
  { name: 'bulk', unit: 'MiB/s', port: 'bulk', connections: 1 },
  { name: 'requests', unit: 'requests/s', port: 'requests', connections: HELD },
  { name: 'connections', unit: 'connections/s', port: 'requests', connections: SHORT },
];
const figures = [];
for (const { name, unit, port, connections } of workloads.filter(
  (one) => values.only === undefined || one.name === values.only,
)) {
  const measure = (at) => start('client', { workload: name, port: at, connections, milliseconds });
  const rounds = [];
  for (let round = 0; round < Number(values.rounds); round += 1) {
    const direct = (await measure(ports[port])).perSecond;
    const through = (await measure(relayed[port])).perSecond;
    rounds.push({ direct, relayed: through, share: through / direct });
  }
  const [direct, through, share] = ['direct', 'relayed', 'share'].map((of) =>
    median(rounds.map((round) => round[of])),
  );
  figures.push({ name, unit, connections, direct, relayed: through, share });
}
for (const child of children) child.kill();
if (values.json) {
  console.log(JSON.stringify({ relay: values.relay, figures }));
} else {
  for (const { name, unit, connections, direct, relayed: through, share } of figures) {
    const texts = [direct, through].map((one) => Math.round(one).toLocaleString('en'));
    console.log(
      `${name} (${connections} at a time): direct ${texts[0]}, relayed ${texts[1]} ${unit} (${Math.round(100 * share)} %)`,
    );
  }
}
