// SPDX-License-Identifier: Apache-2.0
// The socket layer of this build: each hook alone, then the whole as the agent opens it, with one real connect() to a
// Service; and the ways to destroy sockets.
import { createLogger } from '../../../../log.ts';
import { connectOnce, withServer } from '../../../../sys/loopback.ts';
import { followNetwork } from '../../../../sys/netlink/follow.ts';
import type { ProbeSandbox } from '../../../../sys/probe-sandbox.ts';
import type { Dataplane } from '../../../dataplane.ts';
import { codeOf } from '../../errors.ts';
import { socketLayer } from '../../layer.ts';
import { PROBE_ADDRESS, PROBE_PORT, planOf } from '../../probe/plan.ts';
import { DEFAULT_TIMES } from '../../rows/timeouts.ts';
import { preparePins } from '../loader/pins.ts';
import { takeBack, type Undo } from '../loader/undo.ts';
import { openBpfDataplane } from '../open.ts';
import { type Loading, openRecords, openWay, type Way } from '../stale-sockets/mechanism.ts';
import { readObject, SMALL, TABLE_SIZES, withObject } from './objects.ts';

const SOCKET_OBJECT = 'sock.bpf.o';

/** Where connectToService() has attached all of them already. */
const served = new WeakSet<ProbeSandbox>();

/** Loads one program of the socket object and attaches it. */
export async function attachHook(program: string, sandbox: ProbeSandbox): Promise<void> {
  const cgroup = sandbox.cgroup();
  if (served.has(sandbox)) return;
  const settings = {
    ...{ cgroupRoot: cgroup, netnsCookie: undefined },
    ...{ protectsNodePorts: true, socketScope: 'auto' as const },
  };
  const [object] = socketLayer(readObject(SOCKET_OBJECT), settings).objects;
  let refusal: unknown;
  for (const rodata of object?.rodata ?? []) {
    const choice = { name: SOCKET_OBJECT, programs: [program], rodata };
    try {
      await withObject(choice, (parts) => {
        const link = parts.program(program).attachCgroup(cgroup);
        link.detach();
        link.close();
      });
      return;
    } catch (error) {
      refusal ??= error;
      if (codeOf(error) !== 'VERIFIER' && codeOf(error) !== 'EINVAL') break;
    }
  }
  throw refusal;
}

/** The Service is programmed, and a connect() to it ends at its endpoint, while getpeername() shows the Service. */
export async function connectToService(sandbox: ProbeSandbox): Promise<string> {
  sandbox.network();
  return await withSockets(sandbox, async (dataplane) => {
    await withServer('127.0.0.1', async (port) => {
      const { failed } = await dataplane.sync(planOf(port), 'all', []);
      if (failed[0] !== undefined) throw new Error(failed[0].reason);
      const { address } = await connectOnce(PROBE_ADDRESS, PROBE_PORT);
      if (address !== PROBE_ADDRESS) throw new Error(`getpeername() shows ${address}`);
    });
    served.add(sandbox);
    const insns = dataplane.installation.hooks.reduce((sum, hook) => sum + hook.insns, 0);
    return `${dataplane.installation.hooks.length} programs, ${insns} instructions verified`;
  });
}

/** Opened as the agent does it. What it pins is on a file system of this process alone. */
async function withSockets<T>(
  sandbox: ProbeSandbox,
  work: (dataplane: Dataplane) => Promise<T>,
): Promise<T> {
  const bpfRoot = sandbox.bpfRoot();
  const cgroupRoot = sandbox.cgroup();
  const network = followNetwork();
  const log = createLogger('error', 'text');
  try {
    const dataplane = await openBpfDataplane(
      {
        ...{ bpfRoot, cgroupRoot, mapSizes: TABLE_SIZES },
        holder: { command: 'probe', runDir: bpfRoot },
        ...{ resetsTcp: false, answersPing: false, devices: undefined, protectsNodePorts: false },
        socketScope: 'pods',
        conntrack: DEFAULT_TIMES,
      },
      { network, log },
    );
    try {
      return await work(dataplane);
    } finally {
      dataplane.close();
    }
  } finally {
    network.close();
  }
}

/** A socket is destroyed by SOCK_DESTROY; of bpf_sock_destroy the programs are loaded. */
export const destroySocketsBy = (way: Way, sandbox: ProbeSandbox): Promise<void> =>
  opening(way, sandbox, (loading) => openWay(way, loading));

/** The programs that find stale sockets by their records are loaded. */
export const loadMapIterators = (sandbox: ProbeSandbox): Promise<void> =>
  opening('map-iterators', sandbox, openRecords);

/** What is opened is closed again. */
async function opening(
  name: string,
  sandbox: ProbeSandbox,
  open: (loading: Loading) => Promise<unknown>,
): Promise<void> {
  sandbox.network();
  const folder = preparePins(`${sandbox.bpfRoot()}-${name}`);
  const undo: Undo = [];
  try {
    await open({ options: { folder, sizes: SMALL }, undo });
  } finally {
    takeBack(undo);
  }
}
