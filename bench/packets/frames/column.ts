// SPDX-License-Identifier: Apache-2.0
// A column of the tables of frames: its node with what runs on it, and what feeds it.

import type { Status } from '../../../src/observe/status.ts';
import { askAgent } from '../../../src/server/admin-socket.ts';
import { ipBatch, writeSysctls } from '../../../src/sys/netns.ts';
import { fairleadPaths } from '../../../test/support/fixture/proxies/fairlead.ts';
import type { NodeProxy } from '../../../test/support/fixture/proxies/proxy.ts';
import { until } from '../../../test/support/until.ts';
import type { ColumnSite, Site } from '../../../tools/lab/columns/site.ts';
import type { Traffic } from '../../../tools/lab/columns/traffic.ts';
import type { ColumnName } from '../report/figures.ts';
import { NODE } from '../site/objects.ts';
import { type Builds, startProxy } from '../site/proxies.ts';
import { destination, startTraffic } from '../site/traffic.ts';
import { type Feeder, startFeeder } from './feeder.ts';

export interface FrameColumn {
  readonly name: ColumnName;
  readonly site: ColumnSite<ColumnName>;
  readonly proxy: NodeProxy | undefined;
  readonly feeder: Feeder;
  /** The probe. */
  readonly traffic: Traffic;
  readonly toolsCgroup: string;
}

/** Frames are sent to backends themselves. */
export const isDirect = ({ name }: Pick<FrameColumn, 'name'>): boolean =>
  name === 'feeder' || name === 'router' || name === 'plain';

const hasXdp = (name: ColumnName): boolean => name === 'xdp' || name === 'other-xdp';

const READY_MS = 60_000;
/** Clients are behind the one that sends. */
const CLIENTS = 'route add 10.200.0.0/16 via 198.51.100.9';
/** A network card has verified checksums before the kernel sees a packet; here conntrack would do it. */
const NODE_SYSCTLS = { 'net/netfilter/nf_conntrack_checksum': '0' } as const;

/** @param cpu of the feeder; the probe is on the next one */
export async function startColumn(
  { api }: Site,
  site: ColumnSite<ColumnName>,
  builds: Builds & { readonly cpu: number; readonly cpus: number },
): Promise<FrameColumn> {
  const { name } = site;
  const node = site.namespaceOf('node');
  await ipBatch([CLIENTS], node);
  await writeSysctls(node, NODE_SYSCTLS);
  // Before the proxy, which asks whether XDP can send by its devices: their other ends have to take frames.
  const feeder = await startFeeder(site, builds.cpu);
  const proxy = await startProxy(site, api.kubeconfig, builds);
  const traffic = await startTraffic(site, (builds.cpu + 1) % builds.cpus);
  const column = { name, site, proxy, feeder, traffic, toolsCgroup: site.tools('node').cgroup };
  // Neighbours are known then, too.
  for (const backend of ['local', 'remote'] as const) {
    const to = destination(site, backend, true);
    await until(async () => (await traffic.isAnswered(to)) || undefined, {
      what: `${name}: pods answer`,
      timeoutMs: READY_MS,
    });
  }
  if (hasXdp(name)) await untilXdpIsOn(column);
  return column;
}

/** Its devices go on one after the other, each after a trial: one that does not says why. */
async function untilXdpIsOn(column: FrameColumn): Promise<void> {
  let states: readonly string[] = [];
  const areOn = async (): Promise<boolean> => {
    states = await statesOfXdp(column);
    return states.every(isOn);
  };
  const what = `${column.name}: XDP is on`;
  await until(areOn, { what, timeoutMs: READY_MS }).catch((error: unknown) => {
    const last = states.join(', ') || 'the agent has not answered';
    throw new Error(`${what}: not within ${READY_MS} ms: ${last}`, { cause: error });
  });
}

/** The two devices that frames pass. */
const XDP_DEVICES = ['eth0', 'far0'] as const;

/** As `eth0 on`. One that lost frames has none any more, and its figures would be tc's. */
async function statesOfXdp({ site }: Pick<FrameColumn, 'site'>): Promise<readonly string[]> {
  const { devices } = (await askAgent(fairleadPaths(site, NODE).runDir, '/v1/status')) as Status;
  return XDP_DEVICES.map((name) => {
    const device = devices.find((one) => one.name === name);
    return `${name} ${device === undefined ? 'missing' : stateOf(device.xdp)}`;
  });
}

const isOn = (state: string): boolean => state.endsWith(' on');

function stateOf(xdp: Status['devices'][number]['xdp']): string {
  if (xdp === undefined) return 'without XDP';
  return xdp.reason === '' ? xdp.state : `${xdp.state} (${xdp.reason})`;
}

export async function mustHaveXdp(column: FrameColumn): Promise<void> {
  if (!hasXdp(column.name)) return;
  const states = await statesOfXdp(column);
  if (!states.every(isOn)) throw new Error(`${column.name}: XDP is not on: ${states.join(', ')}`);
}

export async function stopColumn({ feeder, traffic, proxy }: FrameColumn): Promise<void> {
  await Promise.all([feeder.stop(), traffic.stop(), proxy?.stop()]);
}
