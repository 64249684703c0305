// SPDX-License-Identifier: Apache-2.0
// How long a device that comes up has no programs: from the request that brings it up until both are attached, and what
// following costs, by the number of devices that are there already. Run in a network namespace of its own (npm
// run bench:devices); needs root and a build.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const load = (path) => import(new URL(`../build/js/${path}`, import.meta.url));
const { createDeviceFollower } = await load('engines/bpf/devices/device-follower.js');
const { createKernelLinks } = await load('engines/bpf/kernel/devices/kernel-links.js');
const { deviceTable } = await load('engines/bpf/devices/device-table.js');
const { hashTable } = await load('engines/bpf/kernel/maps/kernel.js');
const { followNetwork } = await load('sys/netlink/follow.js');
const { SYSTEM_CLOCK } = await load('sys/clock.js');
const native = await load('sys/native.js');

const ROUNDS = 50;
const COUNTS = [0, 100, 1000];
const ip = (lines) => execFileSync('ip', ['-batch', '-'], { input: lines.join('\n') });
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

const folder = mkdtempSync(join(tmpdir(), 'fairlead-bench-'));
native.mountBpffs(folder);
try {
  const object = native.openObject(
    readFileSync(new URL('../build/bpf/packet.bpf.o', import.meta.url)),
  );
  object.load();
  const names = ['fl_ingress', 'fl_egress', 'fl_ingress_l3', 'fl_egress_l3'];
  const programs = new Map(names.map((name) => [name, object.program(name)]));
  const network = followNetwork();
  const follower = createDeviceFollower({
    network,
    policy: { patterns: ['auto'], podDevices: undefined },
    table: deviceTable(hashTable(object.map('fl_device'))),
    links: createKernelLinks({
      ...{ programs, folder, order: 'outer' },
      links: () => network.current().links.values(),
    }),
    clock: SYSTEM_CLOCK,
    log: { info: () => undefined, warn: console.error },
  });
  const isAttached = (name) =>
    [...network.current().links.values()].some((link) => link.name === name && link.isUp) &&
    ['ingress', 'egress'].every((direction) =>
      native.tcxPrograms(indexOf(name), direction).some(({ linkId }) => linkId > 0),
    );
  const indexOf = (name) =>
    [...network.current().links.values()].find((link) => link.name === name).ifindex;
  const until = async (holds) => {
    while (!holds()) await nextTurn();
  };
  let made = 0;
  console.log('devices  p50 ms  p99 ms  max ms  CPU ms each');
  for (const count of COUNTS) {
    const more = Array.from({ length: (count - made) / 2 }, (_, at) => `${made / 2 + at}`);
    ip(more.flatMap((n) => [`link add a${n} type veth peer name b${n}`, `link set a${n} up`]));
    made = count;
    await until(() => more.length === 0 || isAttached(`a${more.at(-1)}`));
    ip(['link add new type bridge']);
    await until(() => [...network.current().links.values()].some(({ name }) => name === 'new'));
    console.log(await measure(count, indexOf('new'), () => isAttached('new'), until));
    ip(['link del new']);
  }
  follower.close();
  network.close();
} finally {
  native.unmount(folder);
  rmSync(folder, { recursive: true });
}

async function measure(count, ifindex, isUp, until) {
  const socket = native.openNetlink({ protocol: 0 });
  const times = [];
  const before = process.cpuUsage();
  for (let round = 0; round < ROUNDS; round++) {
    const startedAt = performance.now();
    socket.send(setLink(ifindex, true));
    await until(isUp);
    times.push(performance.now() - startedAt);
    socket.send(setLink(ifindex, false));
    await until(() => native.tcxPrograms(ifindex, 'ingress').length === 0);
  }
  const { user, system } = process.cpuUsage(before);
  socket.close();
  times.sort((a, b) => a - b);
  const at = (share) => times[Math.min(ROUNDS - 1, Math.floor(share * ROUNDS))].toFixed(1);
  const cpu = (user + system) / 1000 / ROUNDS;
  return [count, at(0.5), at(0.99), at(1), cpu.toFixed(1)]
    .map((one) => `${one}`.padStart(7))
    .join(' ');
}

/** RTM_NEWLINK that sets or clears IFF_UP. */
function setLink(ifindex, isUp) {
  const bytes = new Uint8Array(32);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 32, true);
  view.setUint16(4, 16, true);
  view.setUint16(6, 1, true);
  view.setInt32(20, ifindex, true);
  view.setUint32(24, isUp ? 1 : 0, true);
  view.setUint32(28, 1, true);
  return bytes;
}
