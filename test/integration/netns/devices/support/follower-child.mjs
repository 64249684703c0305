// SPDX-License-Identifier: Apache-2.0
// In a network namespace of its own: follows its devices with the test programs, prints the state after each change
// and each command as a line of JSON. Ends at the command `close`, or when it is killed.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const [modules, input] = process.argv.slice(2);
const load = (path) => import(join(modules, path));
const { createDeviceFollower } = await load('engines/bpf/devices/device-follower.js');
const { createKernelLinks } = await load('engines/bpf/kernel/devices/kernel-links.js');
const { followNetwork } = await load('sys/netlink/follow.js');
const { SYSTEM_CLOCK } = await load('sys/clock.js');
const native = await load('sys/native.js');
const { bpfRoot, object: path, patterns, order, forceClsact } = JSON.parse(input);

const folder = join(bpfRoot, 'links');
mkdirSync(folder, { recursive: true });
const object = native.openObject(readFileSync(path));
object.load();
const names = ['fl_ingress', 'fl_egress', 'fl_ingress_l3', 'fl_egress_l3'];
const programs = new Map(names.map((name) => [name, object.program(name)]));
const table = new Map();
const log = [];
const keep = (level) => (fields, message) =>
  log.push(`${level}: ${message} ${JSON.stringify(fields)}`);
const network = followNetwork();
const follower = createDeviceFollower({
  network,
  policy: { patterns, podDevices: undefined },
  links: createKernelLinks({
    ...{ programs, folder, order, forceClsact },
    links: () => network.current().links.values(),
  }),
  table: {
    read: () => table,
    put(rows) {
      for (const [ifindex, entry] of rows) table.set(ifindex, entry);
      return [];
    },
    delete(gone) {
      for (const ifindex of gone) table.delete(ifindex);
      return [];
    },
    refusal: (code) => code,
  },
  clock: SYSTEM_CLOCK,
  log: { info: keep('info'), warn: keep('warn') },
});

function seen() {
  const { keys, values, count } = object.map('seen').readAll();
  const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = {};
  for (let at = 0; at < count; at++) {
    const key = view(keys).getUint32(at * 4, true);
    const device = network.current().links.get(key >> 2)?.name ?? `${key >> 2}`;
    found[`${names[key & 3]}@${device}`] = Number(view(values).getBigUint64(at * 8, true));
  }
  return found;
}

function print(more = {}) {
  const state = {
    atMs: performance.timeOrigin + performance.now(),
    devices: follower.devices(),
    pins: readdirSync(folder).sort(),
    table: [...table.values()].map((entry) => JSON.parse(entry)),
    seen: seen(),
    log,
    ...more,
  };
  process.stdout.write(`${JSON.stringify(state)}\n`);
}

network.listen(() => print());
print();
let answers = 0;
for await (const command of createInterface({ input: process.stdin })) {
  if (command === 'close') break;
  answers += 1;
  print({ answer: answers, ...(command === 'repair' ? { repaired: follower.repair() } : {}) });
}
follower.close();
network.close();
process.exit(0);
