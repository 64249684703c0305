// SPDX-License-Identifier: Apache-2.0
// Of relay.bench.mjs: the dataplane, with a Service for each port of the server.
import { userspaceCapabilities } from '../../build/js/engines/capabilities.js';
import { createUserspaceDataplane } from '../../build/js/engines/userspace/kernel/dataplane.js';
import { filesOf } from '../../build/js/engines/userspace/kernel/files.js';
import { relayedTcp } from '../../build/js/engines/userspace/kernel/relayed-tcp.js';
import { streamedTcp } from '../../build/js/engines/userspace/kernel/tcp.js';
import { SYSTEM_CLOCK } from '../../build/js/sys/clock.js';
import { limitOfFiles } from '../../build/js/sys/process/files.js';

const { ports, relay } = JSON.parse(process.argv[2]);
const RULE = { scope: 'cluster', whenEmpty: 'reject', masquerade: false };

function servicePlan(name, port) {
  const backends = [{ address: '127.0.0.1', port, isLocal: true, isTerminating: false }];
  const rules = { pod: RULE, host: RULE, outside: RULE };
  const identity = { namespace: 'default', name, portName: '', protocol: 'TCP', family: 'IPv4' };
  return {
    ...identity,
    key: `default/${name}/TCP/IPv4`,
    affinityTimeoutSeconds: 0,
    ...{ cluster: backends, local: backends, serving: backends },
    frontends: [{ kind: 'ClusterIP', address: '192.0.2.10', port, rules }],
  };
}

const services = new Map(
  Object.entries(ports).map(([name, port]) => [
    `default/${name}`,
    { clusterIps: [], ports: [servicePlan(name, port)] },
  ]),
);
const plan = {
  services,
  nodePortAddresses: { IPv4: 'all', IPv6: 'all' },
  detector: { IPv4: undefined, IPv6: undefined },
  node: { name: 'node', localAddresses: [], podCidrs: [], others: new Map() },
  serviceCidrs: [],
  rejections: [],
};
const dataplane = createUserspaceDataplane({
  capabilities: userspaceCapabilities('port-map'),
  installation: { hooks: [], refusesWith: 'ECONNREFUSED', refused: [] },
  clock: SYSTEM_CLOCK,
  memory: { read: () => ({ ports: new Map(), addresses: new Set() }), write: () => true },
  listenTcp: relay === 'streams' ? streamedTcp : relayedTcp(),
  files: filesOf(await limitOfFiles()),
  onShed: (why) => console.error(`refused: too few ${why}`),
  addresses: undefined,
});
const { failed } = await dataplane.sync(plan, 'all', []);
if (failed.length > 0) throw new Error(JSON.stringify(failed));
const { frontends } = await dataplane.snapshot();
const relayed = Object.fromEntries(
  frontends.map(({ port, reachedAt }) => [port.name, Number(reachedAt.split(':')[1])]),
);
process.send({ relayed });
process.once('disconnect', () => process.exit(0));
