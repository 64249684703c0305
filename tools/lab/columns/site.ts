// SPDX-License-Identifier: Apache-2.0
// Where benchmarks compare proxies: a stub of an API server, and a network for each column of the comparison, all
// removed when this process ends.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { findCgroup2, makeCgroup } from '../../../src/sys/cgroup.ts';
import { addNamespaces, ipBatch, writeSysctls } from '../../../src/sys/netns.ts';
import { type StubApi, startStubApi } from '../api/stub.ts';
import { recordOwnership, removeLeftovers, removeOwned } from '../ownership.ts';
import type { Sandbox } from '../sandbox.ts';
import { API_ADDRESS, apiLines, columnLines, MEMBERS, type Member } from './network.ts';

export interface ColumnSite<Name extends string = string> {
  readonly name: Name;
  /** For its files; below it is what its proxy mounts. */
  readonly directory: string;
  /** A program in the node's network, in a cgroup of its own. */
  tools(node: string): Sandbox;
  cgroupOf(node: string): string;
  namespaceOf(member: Member): string;
  /** Outside the cluster. */
  readonly client: Sandbox;
  /** A pod of the node, in a cgroup below that of its pods. */
  readonly inside: Sandbox;
}

export interface Site<Name extends string = string> {
  /** Of all columns. */
  readonly api: StubApi;
  /** One more, whose objects only one column sees. */
  startApi(column: ColumnSite<Name>): Promise<StubApi>;
  readonly columns: readonly ColumnSite<Name>[];
  remove(): void;
}

const FIRST_OWN_PORT = 6500;
const SYSCTLS = {
  'net/ipv4/ip_forward': '1',
  'net/ipv4/conf/all/rp_filter': '0',
  'net/ipv4/conf/default/rp_filter': '0',
  // Others may pace, by timers.
  'net/ipv4/tcp_congestion_control': 'reno',
} as const;
/** All ports there are: one client makes thousands of connections. */
const CLIENT_SYSCTLS = { 'net/ipv4/ip_local_port_range': '1024 65535' } as const;

export async function buildSite<Name extends string>(names: readonly Name[]): Promise<Site<Name>> {
  const cgroupMount = findCgroup2();
  if (cgroupMount === undefined) throw new Error('no cgroup v2 hierarchy is mounted');
  removeLeftovers();
  const ownership = recordOwnership(cgroupMount);
  const { prefix, directory, cgroup } = ownership;
  const onExit = (): void => removeOwned(ownership);
  process.on('exit', onExit);
  const remove = (): void => {
    removeOwned(ownership);
    process.off('exit', onExit);
  };
  const sandboxIn = (namespace: string, path: string): Sandbox => {
    makeCgroup(path);
    return { name: namespace, namespace, cgroup: path };
  };
  try {
    const columns = names.map((name): ColumnSite<Name> => {
      const home = join(directory, name);
      mkdirSync(home);
      const namespaceOf = (member: Member): string => `${prefix}-${name}-${member}`;
      return {
        ...{ name, directory: home, namespaceOf },
        tools: () => sandboxIn(namespaceOf('node'), join(cgroup, name, 'tools')),
        cgroupOf: (node) => sandboxIn(namespaceOf('node'), join(cgroup, name, node)).cgroup,
        client: sandboxIn(namespaceOf('client'), join(cgroup, name, 'client')),
        inside: sandboxIn(namespaceOf('inside'), join(cgroup, name, 'node', 'inside')),
      };
    });
    const api = `${prefix}-api`;
    await wire(api, columns);
    const sandbox = sandboxIn(api, join(cgroup, 'api'));
    const startApi = (column: ColumnSite<Name>): Promise<StubApi> => {
      const port = FIRST_OWN_PORT + columns.indexOf(column);
      return startStubApi(sandbox, API_ADDRESS, column.directory, port);
    };
    const shared = await startStubApi(sandbox, API_ADDRESS, directory);
    return { api: shared, startApi, columns, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

async function wire(api: string, columns: readonly ColumnSite[]): Promise<void> {
  addNamespaces([api, ...columns.flatMap(({ namespaceOf }) => MEMBERS.map(namespaceOf))]);
  await ipBatch(apiLines, api);
  for (const [index, { namespaceOf }] of columns.entries()) {
    for (const member of MEMBERS) {
      const more = member === 'client' || member === 'inside' ? CLIENT_SYSCTLS : {};
      await writeSysctls(namespaceOf(member), { ...SYSCTLS, ...more });
    }
    const nameOf = (member: Member | 'api'): string =>
      member === 'api' ? api : namespaceOf(member);
    for (const [member, lines] of columnLines({ index, nameOf })) {
      await ipBatch(lines, namespaceOf(member));
    }
    await ipBatch([`link set c${index} master br0 up`], api);
  }
}
