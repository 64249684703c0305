// SPDX-License-Identifier: Apache-2.0
// In a network namespace of its own: attaches a layer of two objects, twice, and prints what it saw.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [modules, addon, input] = process.argv.slice(2);
process.env.FAIRLEAD_ADDON = addon;
const { attachLayer } = await import(join(modules, 'attach.js'));
const { bpfRoot, cgroup, device, ifindex, socketObject, classifyObject } = JSON.parse(input);

const rodata = [{ node_netns_cookie: new Uint8Array(8), can_set_retval: Uint8Array.of(1) }];
const layer = {
  name: 'two objects',
  objects: [
    { bytes: readFileSync(socketObject), rodata },
    { bytes: readFileSync(classifyObject), rodata: [{}] },
  ],
  hooks: [
    { program: 'fl_connect4', target: { kind: 'cgroup', path: cgroup } },
    { program: 'fl_classify', target: { kind: 'device', device, ifindex, at: 'ingress' } },
  ],
};

async function attach() {
  const attached = await attachLayer({ layer, bpfRoot, sizes: { fl_service: 16 } });
  const hooks = attached.hooks.map(({ name, isAdopted }) => ({ name, isAdopted }));
  const services = attached.map('fl_service').info.maxEntries;
  const runtime = attached.map('fl_runtime').info.id;
  attached.close();
  return { hooks, services, runtime };
}

const first = await attach();
const second = await attach();
const pins = {
  maps: readdirSync(join(bpfRoot, 'maps')),
  links: readdirSync(join(bpfRoot, 'links')),
};
process.stdout.write(JSON.stringify({ first, second, pins }));
