// SPDX-License-Identifier: Apache-2.0
// A worker that changes frontends A and B in turn as fast as it can, and lets C come and go between.
// `sync`: the agent's own code over the pinned maps. `fl_replaced`, `fl_prealloc`: the value of a hash
// element replaced by a batch for each change. Plain JavaScript over build/: nothing compiles a worker.
import { workerData } from 'node:worker_threads';
import { kernelTables } from '../../../../build/js/engines/bpf/kernel/maps/kernel.js';
import { encodeFrontendKey } from '../../../../build/js/engines/bpf/layout/layout.js';
import { createTableSync } from '../../../../build/js/engines/bpf/state/table-sync.js';
import { openPinnedMap, waitGracePeriod } from '../../../../build/js/sys/native.js';

const { pins, mode, control } = workerData;
/** [0] stop, [1] changes made */
const shared = new Int32Array(control);
const [A, B, C] = [1, 2, 3];
const CHANGES_PER_GRACE_PERIOD = 300;

/** One Service at 10.96.0.<n>:80 with one backend, whose port is n: what the reader tells by. */
function servicePlan(n, turn) {
  const rule = { scope: 'cluster', whenEmpty: 'reject', masquerade: false };
  const backend = { address: `10.${n}.0.${1 + (turn % 250)}`, port: n };
  const backends = [{ ...backend, isLocal: false, isTerminating: false }];
  const frontend = { kind: 'ClusterIP', address: `10.96.0.${n}`, port: 80 };
  const port = {
    ...{ key: `default/s${n}/TCP/IPv4`, namespace: 'default', name: `s${n}`, portName: '' },
    ...{ protocol: 'TCP', family: 'IPv4', affinityTimeoutSeconds: 0 },
    ...{ cluster: backends, local: [], serving: backends },
    frontends: [{ ...frontend, rules: { pod: rule, host: rule, outside: rule } }],
  };
  return { namespace: 'default', name: `s${n}`, type: 'ClusterIP', ports: [port] };
}

async function sync() {
  const tables = kernelTables((name) => openPinnedMap(`${pins}/${name}`));
  const dataplane = createTableSync(tables, waitGracePeriod);
  const services = new Map();
  const change = (n, turn) => {
    if (turn === undefined) services.delete(`default/s${n}`);
    else services.set(`default/s${n}`, servicePlan(n, turn));
    const { failed } = dataplane.apply({ services }, [`default/s${n}`]);
    if (failed.length > 0) throw new Error(failed[0].reason);
    Atomics.add(shared, 1, 1);
  };
  for (let turn = 0; !Atomics.load(shared, 0); turn += 1) {
    change(A, turn);
    change(B, turn);
    change(C, turn % 2 === 0 ? turn : undefined);
    if (turn % CHANGES_PER_GRACE_PERIOD === 0) await dataplane.releaseRetired();
  }
}

function replace() {
  const map = openPinnedMap(`${pins}/${mode}`);
  const key = (n) =>
    encodeFrontendKey({ family: 'IPv4', address: `10.96.0.${n}`, port: 80, protocol: 'TCP' });
  /** struct replaced */
  const value = (n) => {
    const bytes = new Uint8Array(32);
    bytes.set(key(n), 0);
    bytes.set([10, 96, 0, n], 8);
    return bytes;
  };
  const [keys, values] = [[A, B, C].map(key), [A, B, C].map(value)];
  for (let turn = 0; !Atomics.load(shared, 0); turn += 1) {
    map.putBatch(keys[0], values[0]);
    map.putBatch(keys[1], values[1]);
    if (turn % 2 === 0) map.putBatch(keys[2], values[2]);
    else map.deleteBatch(keys[2]);
    Atomics.add(shared, 1, 3);
  }
  map.close();
}

await (mode === 'sync' ? sync() : replace());
